"""A session of Spark for queries, as a fixture of the tests of one file."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pyspark import SparkContext

from frazil.adapters.spark.application import RUNS_QUERIES
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import SqlSession

FEW_ROWS = replace(RUNS_QUERIES, options="-XX:TieredStopAtLevel=1")
"""The second compiler makes the queries of many rows fast; tests have few."""

WITHOUT_COMPILER = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.icu.caseMappings.enabled": "false",
}
"""Settings of queries: Spark reads few rows sooner than it compiles code for them.

With ICU, the first `upper` of a JVM looks at all letters, which takes 2 seconds.
"""


@contextmanager
def query_session(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SqlSession]:
    """Open a session, with its log in a folder; the file's tests ignore PytestUnraisableExceptionWarning.

    Without `settings`, its queries run as those of the product.

    PySpark leaves the sockets of `collect` to the garbage collector. It runs here, or tests of another file would get
    the warnings. So would they get those of a thread that tells the JVM of objects which are not needed any more.
    """
    runner = SparkRunner(log_file=folder / "spark.log", jvm=FEW_ROWS)
    try:
        session = SqlSession(runner)
        for name, value in settings.items():
            session.spark.conf.set(name, value)
        yield session
    finally:
        _let_the_jvm_know()
        runner.stop()
        gc.collect()


def _let_the_jvm_know() -> None:
    """Wait until that thread has named all objects, for a minute at most."""
    gc.collect()
    gateway, end = SparkContext._gateway, time.monotonic() + 60
    while gateway is not None and gateway._gateway_client.finalizer_deque and time.monotonic() < end:
        time.sleep(0.05)
