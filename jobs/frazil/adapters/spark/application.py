"""A Spark application: its settings, and the start of its JVM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.adapters.spark.cluster import (
    PYTHON,
    PYTHON_PATH,
    SparkCluster,
    SparkClusterError,
    cancel_without_executors,
    first_lines,
    prepare,
    shipped,
)
from frazil.local import class_data
from frazil.local.java import find_java
from frazil.model.errors import FrazilError, MissingToolError, SettingError
from frazil.model.ingested import ATTEMPTS_OF_A_TASK

DRIVER_MEMORY = "1g"


@dataclass(frozen=True, slots=True)
class Jvm:
    """What the JVM of a driver on this machine gets: its memory, and the compilers that it may use."""

    memory: str
    options: str


HANDS_OUT_TASKS = Jvm(DRIVER_MEMORY, "-XX:TieredStopAtLevel=1")
"""The JVM sees no row: the second compiler takes 40 % of its start and brings nothing."""

RUNS_QUERIES = Jvm("2g", "")
"""The JVM sees each row of a query: with the first compiler alone, a query takes twice as much CPU."""


def start(name: str, *, log_file: Path, cluster: SparkCluster | None = None, jvm: Jvm = HANDS_OUT_TASKS) -> Any:
    """Start an application on the cluster, or on None where spark-submit says, or else on this machine.

    The sources for the workers are packed into the folder of the log. Raises MissingToolError if Spark does not start
    on this machine, SparkClusterError if the cluster cannot run tasks, and SettingError.
    """
    if cluster is not None:
        _check_not_submitted()
        cluster.check()
    if not _submitted():
        os.environ["JAVA_HOME"] = str(find_java().home)
    try:
        return _started(name, log_file, cluster, jvm)
    except FrazilError:
        raise
    except Exception as problem:
        if cluster is not None:
            raise SparkClusterError(
                f"Spark did not start on {cluster.master}: {first_lines(str(problem))}",
                hint=f"see {log_file}; the cluster must run the same version of Spark, and be able to connect to this"
                " machine (SPARK_LOCAL_IP, spark.driver.host)",
            ) from problem
        raise MissingToolError(
            f"Spark did not start: {first_lines(str(problem))}",
            hint=f"see {log_file}; install a Java 17 runtime and set JAVA_HOME, or run `make setup`",
        ) from problem


def _started(name: str, log_file: Path, cluster: SparkCluster | None, jvm: Jvm) -> Any:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - a second to import, and only some verbs need it

    if _submitted():
        SparkContext._ensure_initialized()  # only its JVM knows what was submitted, such as the master
    conf = SparkConf(loadDefaults=True)
    conf = settings(conf, submitted=_submitted(), cluster=cluster, folder=log_file.parent, jvm=jvm)
    on_cluster = not shares_machine(conf)
    os.environ.setdefault("PYSPARK_PYTHON", PYTHON if on_cluster else sys.executable)
    with _stderr_to(log_file), _sigint_kept():
        context = _context(conf.setAppName(name))
        if on_cluster:
            _prepared(context)
        return context


def _prepared(context: Any) -> None:
    try:
        prepare(context)
    except BaseException:
        context.stop()
        raise
    threading.Thread(target=_watched, args=(context,), name="spark-executors", daemon=True).start()


def _watched(context: Any) -> None:
    with suppress(Exception):  # the application is being stopped, and with it the connection to its JVM
        cancel_without_executors(context)


def _check_not_submitted() -> None:
    if _submitted():
        raise SettingError(
            "--spark-master has no effect here: spark-submit, which started this process, has chosen the master",
            hint="remove --spark-master and --spark-environment, and give --master and --archives to spark-submit",
        )


def _context(conf: Any) -> Any:
    """Start Spark with a JVM in a session of its own, which ends when this process does.

    `timeout` and supervisors send SIGTERM to the whole process group. The JVM would end at once, and with it the tasks
    of the batches that are to be finished.
    """
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    running = SparkContext._gateway  # the JVM of this process, which outlives a context
    gateway = running or launch_gateway(conf, popen_kwargs={"start_new_session": True})
    return SparkContext(conf=conf, gateway=gateway)


def settings(
    conf: Any, *, submitted: bool, folder: Path, cluster: SparkCluster | None = None, jvm: Jvm = HANDS_OUT_TASKS
) -> Any:
    """Return the configuration with what Frazil needs; the submitter's settings stay, except those in `_ALWAYS`."""
    chosen_here = {} if submitted else (_on_a_laptop() if cluster is None else _as_client(cluster)) | _ours(jvm)
    for name, value in (_EVERYWHERE | chosen_here).items():
        conf.setIfMissing(name, value)
    for name, value in _ALWAYS.items():
        conf.set(name, value)
    if not shares_machine(conf):
        environment = None if cluster is None else cluster.environment
        archives = shipped(conf.get("spark.archives", ""), environment=environment, folder=folder)
        conf.set("spark.archives", archives)
        conf.setIfMissing("spark.executorEnv.PYTHONPATH", PYTHON_PATH)
    return conf


def shares_machine(conf: Any) -> bool:
    """Return whether driver and tasks share a machine."""
    return str(conf.get("spark.master", "local")).startswith("local")


@contextmanager
def _stderr_to(log_file: Path) -> Iterator[None]:
    """Redirect the stderr of this process to a file, so that the JVM, which inherits it, logs there."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with log_file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _sigint_kept() -> Iterator[None]:
    """Restore the SIGINT handler that SparkContext replaces: with Spark's, Ctrl-C would kill the batch in flight."""
    kept = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, kept)


def _submitted() -> bool:
    """Return whether spark-submit started this process, with a JVM that has master, hosts and memory set."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


_EVERYWHERE = {
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "frazil.adapters.spark.daemon",
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Spark settings that Frazil relies on; the submitter may override them."""

_ALWAYS = {"spark.io.encryption.enabled": "true"}
"""Whatever was submitted: without it PySpark hands tasks to the JVM in a file, with their secrets in clear, which a
driver that is killed leaves behind. With it they go through a socket, and what Spark spills is encrypted.
"""


def _on_a_laptop() -> dict[str, str]:
    """Executors of a cluster could not reach a driver on loopback: only this machine's can."""
    return {
        "spark.master": f"local[*,{ATTEMPTS_OF_A_TASK}]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }


def _as_client(cluster: SparkCluster) -> dict[str, str]:
    """The driver's addresses are Spark's choice, or come from SPARK_LOCAL_IP and spark-defaults.conf."""
    return {"spark.master": cluster.master, "spark.task.maxFailures": str(ATTEMPTS_OF_A_TASK)}


def _ours(jvm: Jvm) -> dict[str, str]:
    return {
        "spark.driver.memory": jvm.memory,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {jvm.options} {class_data.spark_options()}",
    }
