"""A session of Spark for queries, as a fixture of the tests of one file."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from frazil.adapters.spark.application import RUNS_QUERIES
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import SqlSession

FEW_ROWS = replace(RUNS_QUERIES, options="-XX:TieredStopAtLevel=1")
"""The second compiler makes the queries of many rows fast; tests have few."""


@contextmanager
def query_session(folder: Path) -> Iterator[SqlSession]:
    """Open a session, with its log in a folder; the file's tests ignore PytestUnraisableExceptionWarning.

    PySpark leaves the sockets of `collect` to the garbage collector. It runs here, or tests of another file would get
    the warnings.
    """
    runner = SparkRunner(log_file=folder / "spark.log", jvm=FEW_ROWS)
    try:
        yield SqlSession(runner)
    finally:
        runner.stop()
        gc.collect()
