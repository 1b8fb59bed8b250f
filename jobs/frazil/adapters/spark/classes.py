"""Record the classes that Spark loads for a first task and a first query into the archive of `frazil.local.class_data`.

    python -m frazil.adapters.spark.classes

A JVM that maps the archive needs half the CPU time until its first task or query. Java ignores an archive that does not
fit its version or Spark's jars, so an old one costs time and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from operator import neg
from pathlib import Path

import pyarrow as pa

from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import spark_schema
from frazil.local.class_data import QUIET, SPARK_ARCHIVE
from frazil.model.columns import Column, Scalar
from frazil.model.errors import FrazilError

END_SECONDS = 120
COLUMNS = (Column("id", Scalar("long")),)
QUERY = """
SELECT a.id % 3 AS id, count(*) AS n, sum(b.id) AS total, max(CAST(b.id AS string)) AS text
FROM numbers AS a JOIN numbers AS b ON a.id = b.id WHERE a.id <> 3 GROUP BY a.id % 3
UNION ALL SELECT id, 1, id, 'one' FROM numbers
"""
"""What most transformations have: conditions, a join, groups, and another query."""


def record(archive: Path) -> None:
    """Start Spark, run a task and a query, and keep the archive that its JVM writes when it ends."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="spark-classes-") as folder:
        recorded = Path(folder) / archive.name
        options = (f'"-XX:ArchiveClassesAtExit={recorded}"', *QUIET)
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
        _run(Path(folder) / "spark.log")
        recorded.replace(archive)


def _run(log: Path) -> None:
    """The JVM ends when its standard input is closed."""
    runner = SparkRunner(log_file=log)
    context = runner.start()
    gateway = context._gateway
    context.parallelize(range(2), 2).map(neg).collect()
    _run_query(SqlSession(runner))
    runner.stop()
    gateway.shutdown()
    gateway.proc.communicate(timeout=END_SECONDS)  # closes its standard input


def _run_query(session: SqlSession) -> None:
    """Let Python tasks read and write the rows of a query, as those of transformations do."""
    schema = spark_schema(COLUMNS)
    session.show({"numbers": session.map_in_arrow(session.spark.range(0, 5, 1, 2), _as_they_are, schema)})
    session.map_in_arrow(session.spark.sql(QUERY).select("id"), _as_they_are, schema).collect()


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(batches)


if __name__ == "__main__":
    print("recording Spark's classes, which halves its start time", file=sys.stderr)
    SPARK_ARCHIVE.unlink(missing_ok=True)
    try:
        record(SPARK_ARCHIVE)
    except (FrazilError, OSError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"could not record Spark's classes; Spark works, but starts slowly: {problem}")
