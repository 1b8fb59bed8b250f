"""A Spark cluster of this machine: one master and a few workers, each a process with a folder of its own, on loopback.

Its machines know nothing of the project: PATH has the base interpreter, and there is no PYTHONPATH. Its traffic is
authenticated and encrypted, since tasks carry secrets.

Master and workers read a properties file. Spark puts the folder of SPARK_CONF_DIR first in the class path of a JVM and
of those that it starts, and Java then ignores the archive of classes, at twice the CPU time.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from frazil.local import class_data
from frazil.local.java import find_java
from tests.fakes.on_loopback import on_loopback
from tests.own_processes import SERVICES

SPARK_HOME = Path(str(distribution("pyspark").locate_file("pyspark"))).resolve()
CHECKOUT = Path(__file__).parents[2]
LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
CORES_OF_A_WORKER = 2
START_SECONDS = 120.0
END_SECONDS = 20.0
LOOK_SECONDS = 0.1
FAST_JVM = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {class_data.spark_options()}"
NOT_IN_TASKS = {"deltalake", "snowflake-connector-python", "botocore", "sqlalchemy", "pyiceberg-core"}
"""Large packages that no task of these tests imports. The driver and each executor unpack all that is packed."""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster. `folder` has its configuration, its logs and the work folders of its workers."""

    master: str
    folder: Path
    processes: tuple[subprocess.Popen[bytes], ...]

    @property
    def properties(self) -> Path:
        return _properties(self.folder)

    @property
    def events(self) -> Path:
        return self.folder / "events"


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, cores: int = CORES_OF_A_WORKER) -> Iterator[SparkCluster]:
    """Start a cluster, and stop all its processes at the end. `cores` are those of each worker."""
    names = [f"worker-{number + 1}" for number in range(workers)]
    processes: list[subprocess.Popen[bytes]] = []
    _write_configuration(folder)
    try:
        processes.append(_started(folder, "master", "org.apache.spark.deploy.master.Master"))
        master = _said(folder / "master.log", r"Starting Spark master at (spark://\S+)", processes)
        for name in names:
            size = ("--cores", str(cores), "--memory", "2g", "--work-dir", str(folder / name))
            processes.append(_started(folder, name, "org.apache.spark.deploy.worker.Worker", *size, master))
        for name in names:
            _said(folder / f"{name}.log", r"(Successfully registered with master)", processes)
        yield SparkCluster(master, folder, tuple(processes))
    finally:
        _stop(processes)


def machine_environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of a machine of the cluster: none of the project's."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return {
        "PATH": os.pathsep.join((str(base.parent), os.defpath)),
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": FAST_JVM,
        "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        **{name: os.environ[name] for name in (SERVICES,) if name in os.environ},
    }


def pack_environment(target: Path) -> Path:
    """Pack what `make environment` does, from the installed packages and uncompressed.

    Compression would cost seconds in each executor, and so would packages without bytecode.
    """
    with tarfile.open(target, "w") as archive:
        for path in sorted(_paths_of_packages()):
            archive.add(path, path.name, filter=_without_tests)
        archive.add(next((CHECKOUT / "jobs").glob("frazil_native.*.so")), "frazil_native.abi3.so")
    return target


def served(folder: Path) -> AbstractContextManager[str]:
    """Serve the files of a folder over HTTP, as a place from which all executors fetch."""
    return on_loopback(partial(_QuietHandler, directory=str(folder)))


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class's name


def _paths_of_packages() -> Iterator[Path]:
    lock = (CHECKOUT / "jobs/requirements.lock").read_text()
    for name in set(re.findall(r"^([a-z][^=]*)==", lock, re.MULTILINE)) - NOT_IN_TASKS:
        with suppress(PackageNotFoundError):  # a package of other platforms
            found = distribution(name)
            tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "bin")}
            yield from (Path(str(found.locate_file(top))) for top in tops)


def _without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).parts[1:2] in (("tests",), ("include",)) else entry


def _write_configuration(folder: Path) -> None:
    """Write the settings of master, workers and drivers; the secret lets them talk to each other."""
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(16),
        "spark.network.crypto.enabled": "true",
        "spark.master.rest.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": FAST_JVM,
        "spark.executor.extraJavaOptions": FAST_JVM,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    for name in ("conf", "events", "local"):
        (folder / name).mkdir()
    file = _properties(folder)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


def _properties(folder: Path) -> Path:
    return folder / "conf/spark-defaults.conf"


def _started(folder: Path, name: str, *program: str) -> subprocess.Popen[bytes]:
    given = ("--properties-file", str(_properties(folder)))
    command = [str(SPARK_HOME / "bin/spark-class"), program[0], *LOOPBACK, *given, *program[1:]]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env=machine_environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _said(log: Path, pattern: str, processes: list[subprocess.Popen[bytes]]) -> str:
    """Wait until the log of the process that was started last matches; return the first group."""
    deadline = time.monotonic() + START_SECONDS
    while (found := re.search(pattern, log.read_text())) is None:
        alive = all(each.poll() is None for each in processes)
        assert alive and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(LOOK_SECONDS)
    return found[1]


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Stop workers before the master. A worker that is asked to end kills its executors."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_SECONDS)
