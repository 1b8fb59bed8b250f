"""Iceberg's own procedures, in a Spark of their own: SQL comes in line by line, rows go out.

python -m tests.faults.procedures SETTINGS
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from frazil.model.settings import CatalogSettings
from tests.faults.spark_catalogs import spark_catalog, start_environment, start_settings


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

    def compact(self, catalog: str, table: str) -> None:
        self.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")

    def expire(self, catalog: str, table: str) -> None:
        """With the youngest cutoff that there is: only what a branch or a tag points to stays."""
        self.sql(
            f"CALL {catalog}.system.expire_snapshots(table => '{table}',"
            " older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        )

    def roll_back(self, catalog: str, table: str, snapshot_id: int) -> None:
        self.sql(f"CALL {catalog}.system.rollback_to_snapshot('{table}', {snapshot_id})")


@contextmanager
def procedures(folder: Path, catalogs: Mapping[str, CatalogSettings]) -> Iterator[Procedures]:
    """One Spark with all the catalogs, by name; its log is in the folder."""
    settings = start_settings()
    for name, catalog in catalogs.items():
        settings |= spark_catalog(name, catalog)
    environment = {**os.environ, **start_environment(), "PYSPARK_PYTHON": sys.executable}
    with (folder / "spark.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.procedures", json.dumps(settings)],
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

    builder = SparkSession.builder.master("local[1]")
    for name, value in json.loads(sys.argv[1]).items():
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
