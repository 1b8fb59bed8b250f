"""Record the classes that Spark loads for a first task into the archive of `frazil.local.class_data`.

    python -m frazil.adapters.spark.classes

A JVM that maps the archive needs half the CPU time until its first task. Java ignores an archive that does not fit its
version or Spark's jars, so an old one costs time and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from operator import neg
from pathlib import Path

from frazil.adapters.spark.runner import SparkRunner
from frazil.local.class_data import QUIET, SPARK_ARCHIVE
from frazil.model.errors import FrazilError

END_SECONDS = 120


def record(archive: Path) -> None:
    """Start Spark, run one task, and keep the archive that its JVM writes when it ends."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="spark-classes-") as folder:
        recorded = Path(folder) / archive.name
        options = (f'"-XX:ArchiveClassesAtExit={recorded}"', *QUIET)
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
        _run_one_task(Path(folder) / "spark.log")
        recorded.replace(archive)


def _run_one_task(log: Path) -> None:
    """The JVM ends when its standard input is closed."""
    runner = SparkRunner(log_file=log)
    context = runner.start()
    gateway = context._gateway
    context.parallelize(range(2), 2).map(neg).collect()
    runner.stop()
    gateway.shutdown()
    gateway.proc.communicate(timeout=END_SECONDS)  # closes its standard input


if __name__ == "__main__":
    print("recording Spark's classes, which halves its start time", file=sys.stderr)
    SPARK_ARCHIVE.unlink(missing_ok=True)
    try:
        record(SPARK_ARCHIVE)
    except (FrazilError, OSError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"could not record Spark's classes; Spark works, but starts slowly: {problem}")
