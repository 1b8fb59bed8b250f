"""Spark: distributes ingest tasks over its executors (`ports.TaskRunner`)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from frazil.adapters.kafka.reader import warn_if_fetching_in_python
from frazil.adapters.spark.task_progress import FOLDER_PROPERTY, offsets_read
from frazil.adapters.spark.worker import run
from frazil.local import class_data
from frazil.local.java import find_java
from frazil.model.errors import FrazilError, MissingToolError, ServiceError
from frazil.model.ingested import ATTEMPTS_OF_A_TASK, IngestTask, TaskResult

DRIVER_MEMORY = "1g"


class TaskFailedError(ServiceError):
    """Spark gave a task up after its attempts: a worker died or was lost."""


class SparkRunner:
    """One Spark application for all tables of a process; started with the first task."""

    def __init__(self, *, log_file: Path, application: str = "frazil") -> None:
        self._log_file = log_file
        self._application = application
        self._lock = threading.Lock()
        self._context: Any = None
        self._parallelism = 1
        self._progress: dict[str, Path] = {}

    @property
    def parallelism(self) -> int:
        """Cores of the executors, not of the driver: the most seen since the start, since executors come and go."""
        return self._parallelism

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        context = self.start()
        context.setLocalProperty("spark.scheduler.pool", name.split(" ", 1)[0])
        context.setJobDescription(name)
        try:
            with self._progress_kept(context, name):
                results = context.parallelize(tasks, len(tasks)).map(run).collect()
        except Exception as problem:
            raise TaskFailedError(
                f"{name}: a Spark task failed {ATTEMPTS_OF_A_TASK} times: {_first_lines(problem)}",
                hint="nothing was published; look for a killed worker or too little memory, and run again",
            ) from problem
        failures = [result for result in results if isinstance(result, FrazilError)]
        if failures:
            raise failures[0]
        return list(results)

    def offsets_read(self, name: str) -> int:
        """Return the offsets that the tasks of a batch have passed; 0 where they run on other machines."""
        folder = self._progress.get(name)
        return 0 if folder is None else offsets_read(folder)

    @contextmanager
    def _progress_kept(self, context: Any, name: str) -> Iterator[None]:
        if not str(context.master).startswith("local"):
            yield
            return
        with TemporaryDirectory(prefix="frazil-progress-", ignore_cleanup_errors=True) as folder:
            context.setLocalProperty(FOLDER_PROPERTY, folder)
            self._progress[name] = Path(folder)
            try:
                yield
            finally:
                del self._progress[name]

    def stop(self) -> None:
        if self._context is not None:
            self._context.stop()
            self._context = None

    def start(self) -> Any:
        """Start the application unless it is running, and return it. Raises MissingToolError if Java is missing."""
        with self._lock:
            if self._context is None:
                warn_if_fetching_in_python()  # a warning of the tasks' processes would not reach the terminal
                self._context = _start(self._application, self._log_file)
            self._parallelism = max(self._parallelism, int(self._context.defaultParallelism))
            return self._context


def _start(application: str, log_file: Path) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _submitted():
        os.environ["JAVA_HOME"] = str(find_java().home)
    try:
        from pyspark import SparkConf  # noqa: PLC0415 - a second to import, and only some verbs need it

        conf = _settings(SparkConf(loadDefaults=True), submitted=_submitted()).setAppName(application)
        with _stderr_to(log_file), _sigint_kept():
            return _context(conf)
    except Exception as problem:
        raise MissingToolError(
            f"Spark did not start: {_first_lines(problem)}",
            hint=f"see {log_file}; install a Java 17 runtime and set JAVA_HOME, or run `make setup`",
        ) from problem


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


def _settings(conf: Any, *, submitted: bool) -> Any:
    for name, value in (_EVERYWHERE if submitted else _EVERYWHERE | _on_a_laptop()).items():
        conf.setIfMissing(name, value)
    for name, value in _ALWAYS.items():
        conf.set(name, value)
    return conf


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
    """Executors of a cluster could not reach a driver on loopback: there spark-submit decides.

    The JVM hands out tasks and sees no row: the second compiler takes 40 % of its start and brings nothing.
    """
    java_options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {class_data.spark_options()}"
    return {
        "spark.master": f"local[*,{ATTEMPTS_OF_A_TASK}]",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": java_options,
    }


def _first_lines(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return " | ".join(lines[:3])[:600]
