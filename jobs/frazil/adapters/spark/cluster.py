"""A Spark cluster: what is shipped to its workers, how many cores it gives, and whether it can run tasks."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frazil
from frazil.adapters.network import Address, reach
from frazil.adapters.spark.worker import describe_worker
from frazil.formats.native import native_available
from frazil.model.errors import ServiceError, SettingError

LOG = logging.getLogger(__name__)

MASTERS = ("spark://", "yarn", "k8s://")
DEFAULT_PORT = 7077
PYTHON_EXCEPTION = re.compile(r"(?!org\.|java\.|py4j\.|scala\.)[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b(: |$)")
"""The last line of a Python traceback."""
URL = re.compile(r"[a-z][a-z0-9+.-]+:")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter of the workers, from their PATH: Spark requires the driver's version. `PYSPARK_PYTHON` overrides."""

PACKAGES, SOURCES = "environment", "frazil"
"""The folders, in an executor's work folder, into which the two archives are unpacked."""
PYTHON_PATH = f"./{PACKAGES}:./{SOURCES}"

REACH_SECONDS = 10.0
EXECUTORS_SECONDS = 300.0
"""How long a cluster may take to give the first executor: managed ones start machines for it."""
SETTLED_SECONDS = 2.0
"""Executors start together. When no core was added for so long, the cluster has given all that it will give now."""
MOST_SETTLING_SECONDS = 20.0
LOOK_SECONDS = 0.1
WATCH_SECONDS = 10.0

FIX_PYTHON = f"install Python {PYTHON.removeprefix('python')} on every worker, or set PYSPARK_PYTHON to its path there"
SHIP_PACKAGES = (
    "run `make environment` on a machine like the workers, and pass its archive with --spark-environment"
    " (spark-submit: --archives FILE#environment)"
)


class SparkClusterError(ServiceError):
    """A Spark cluster that does not answer, or gives no executors."""


class SparkWorkerError(SparkClusterError):
    """The workers of a cluster cannot run tasks: Python or packages are missing, or have another version."""

    worth_retrying = False


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A cluster by its master's URL. `environment` is an archive with Frazil's packages: a file or a URL, or None."""

    master: str
    environment: str | None = None

    def check(self) -> None:
        """Raise SettingError for a master or an archive that cannot be right, SparkClusterError if no master answers.

        Spark itself would retry for a minute.
        """
        if not self.master.startswith(MASTERS):
            raise SettingError(
                f'--spark-master: expected spark://HOST:PORT, yarn or k8s://…, found "{self.master}"',
                hint="the master's web page shows its URL; leave the option out to run on this machine",
            )
        if self.environment is not None and not URL.match(self.environment) and not Path(self.environment).is_file():
            raise SettingError(
                f"--spark-environment: there is no file {self.environment}",
                hint="run `make environment`, which writes .frazil/spark/environment.tar.gz",
            )
        if self.environment is not None and self.environment.startswith("local:"):
            raise SettingError(
                f"--spark-environment: Spark unpacks no archive of its workers' own disks, found {self.environment}",
                hint="give a file of this machine, or a URL that every worker can fetch, such as https: or s3a:",
            )
        if self.master.startswith("spark://"):
            _reach_any(self.master)


def _reach_any(master: str) -> None:
    """Raise SparkClusterError unless one of the masters listens. With high availability there are several."""
    problems = []
    for each in master.removeprefix("spark://").split(","):
        host, _, port = each.rpartition(":") if ":" in each else (each, "", "")
        address = Address(host.strip("[]"), int(port) if port.isdigit() else DEFAULT_PORT)
        try:
            reach(address, None, seconds=REACH_SECONDS)
        except ServiceError as problem:
            problems.append(problem)
        else:
            return
    raise SparkClusterError(
        f"no answer from the Spark master {master}: {'; '.join(problem.what for problem in problems)}",
        hint="start the master and its workers, or correct --spark-master",
    ) from problems[0]


def shipped(archives: str, *, environment: str | None, folder: Path) -> str:
    """Return the value of `spark.archives`: the given one, with the packages and the sources of this Frazil.

    The sources are packed into `folder`, so that tasks run the driver's version. A submitter who ships sources
    itself keeps them.
    """
    listed = [one for one in archives.split(",") if one]
    names = {one.partition("#")[2] for one in listed}
    if environment is not None and PACKAGES not in names:
        listed.append(f"{environment}#{PACKAGES}")
    if SOURCES not in names:
        listed.append(f"{_packed_sources(folder)}#{SOURCES}")
    return ",".join(listed)


def _packed_sources(folder: Path) -> Path:
    """Pack the sources of this Frazil, unless they are there: the name has their hash."""
    package = Path(frazil.__path__[0])
    sources = [(f"{package.name}/{file.relative_to(package)}", file) for file in sorted(package.rglob("*.py"))]
    digest = hashlib.sha256(b"".join(name.encode() + file.read_bytes() for name, file in sources))
    target = folder / f"frazil-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{target.name}.{os.getpid()}")
        with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in sources:
                archive.write(file, name)
        half.replace(target)
    return target


def prepare(context: Any, *, clock: Callable[[], float] = time.monotonic, pause: Any = time.sleep) -> None:
    """Wait for executors, and check that their Python can run tasks. Raises SparkClusterError or SparkWorkerError."""
    _await_executors(context, clock, pause)
    _check_workers(context)


def _await_executors(context: Any, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
    began = clock()
    while not _executors(context):
        if clock() - began > EXECUTORS_SECONDS:
            raise SparkClusterError(
                f"{context.master} gave no executor within {EXECUTORS_SECONDS:.0f} s",
                hint="the master's web page shows whether workers are registered, and whether they have the cores and"
                " the memory that an executor asks for (spark.executor.cores, spark.executor.memory)",
            )
        pause(LOOK_SECONDS)
    _await_settled(context, clock, pause)


def _await_settled(context: Any, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
    """Wait until the number of cores stays the same, for a limited time: what comes later counts for later batches."""
    began = changed = clock()
    cores = context.defaultParallelism
    while clock() - changed < SETTLED_SECONDS and clock() - began < MOST_SETTLING_SECONDS:
        pause(LOOK_SECONDS)
        found = context.defaultParallelism
        if found != cores:
            cores, changed = found, clock()


def cancel_without_executors(
    context: Any, *, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep
) -> None:
    """Cancel all jobs whenever the cluster has had no executor for a while; return when the application has ended.

    Spark itself would let them wait for ever.
    """
    seen = clock()
    while not context._jsc.sc().isStopped():
        if _executors(context):
            seen = clock()
        elif clock() - seen > EXECUTORS_SECONDS:
            LOG.warning("jobs_cancelled", extra={"master": context.master, "without_executors": EXECUTORS_SECONDS})
            context.cancelAllJobs()
            seen = clock()
        pause(WATCH_SECONDS)


def _executors(context: Any) -> int:
    """Return the number of executors; Spark's map has the driver as well."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _check_workers(context: Any) -> None:
    """Run a task on each core. It also unpacks the archives and imports the packages before the first batch."""
    cores = max(int(context.defaultParallelism), 1)
    context.setJobDescription("check the workers")
    try:
        found = context.parallelize(range(cores), cores).map(describe_worker).collect()
    except Exception as problem:
        raise _cannot_run(str(problem), f"{context.master}, {context.pythonExec}") from problem
    if native_available() and not all(has_decoder for _, has_decoder in found):
        LOG.warning(
            "decoding_in_python", extra={"workers": sorted({host for host, ok in found if not ok}), "cost": "ten times"}
        )


def _cannot_run(text: str, where: str) -> SparkWorkerError:
    """Return the error for workers that cannot run a task, classified by the text of Spark's exception."""
    if "PYTHON_VERSION_MISMATCH" in text:
        versions = _line_from(text, "Python in worker")
        return SparkWorkerError(f"the workers run another Python ({where}): {versions}", hint=FIX_PYTHON)
    if "Cannot run program" in text:
        return SparkWorkerError(
            f"the workers have no such Python ({where}): {_line_from(text, 'Cannot run program')}", hint=FIX_PYTHON
        )
    if "ModuleNotFoundError" in text or "ImportError" in text:
        missing = _line_from(text, "ModuleNotFoundError" if "ModuleNotFoundError" in text else "ImportError")
        return SparkWorkerError(f"the workers lack packages ({where}): {missing}", hint=SHIP_PACKAGES)
    return SparkWorkerError(
        f"the workers cannot run tasks ({where}): {cause_in(text)}",
        hint="see Spark's log and the `stderr` of an executor in the work folder of its worker",
    )


def _line_from(text: str, word: str) -> str:
    """Return the rest of the line that begins with the word, or the word itself."""
    return (word + text.partition(word)[2].partition("\n")[0])[:300]


def cause_in(text: str) -> str:
    """Return the exception of the task in the text of Spark's exception, or its first lines if there is none."""
    raised = [line for line in text.splitlines() if PYTHON_EXCEPTION.match(line)]
    return raised[-1][:600] if raised else first_lines(text)


def first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[:3])[:600]
