"""Iceberg's own procedures, in a Spark of their own: SQL comes in line by line, rows go out.

python -m tests.faults.procedures WAREHOUSE JARS
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jobs.adapters.iceberg import CATALOG_NAME
from jobs.local.jars import fetch
from jobs.local.java import find_java


class Procedures:
    """Talks to the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def sql(self, text: str) -> list[Mapping[str, object]]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        answer = ast.literal_eval(self._process.stdout.readline() or "'Spark died'")
        assert isinstance(answer, list), answer
        return answer

    def compact(self, table: str) -> None:
        self.sql(
            f"CALL {CATALOG_NAME}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
        )

    def expire(self, table: str) -> None:
        """With the youngest cutoff that there is: only what a branch or a tag points to stays."""
        self.sql(
            f"CALL {CATALOG_NAME}.system.expire_snapshots(table => '{table}',"
            " older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        )

    def roll_back(self, table: str, snapshot_id: int) -> None:
        self.sql(f"CALL {CATALOG_NAME}.system.rollback_to_snapshot('{table}', {snapshot_id})")


@contextmanager
def procedures(warehouse: Path) -> Iterator[Procedures]:
    jars = ",".join(str(path) for path in fetch("iceberg"))
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    with (warehouse / "spark.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.procedures", str(warehouse), jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
        )
        with process:
            try:
                yield Procedures(process)
            finally:
                assert process.stdin
                process.stdin.close()
                process.wait(30)


def main() -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only this process has a Spark

    warehouse, jars = sys.argv[1:]
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        ".warehouse": warehouse,
        ".jdbc.schema-version": "V1",
    }
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **{f"spark.sql.catalog.{CATALOG_NAME}{key}": value for key, value in catalog.items()},
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            print([row.asDict() for row in spark.sql(line).collect()], flush=True)
        except Exception as failure:
            print(repr(str(failure)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
