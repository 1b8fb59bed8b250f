"""Rows in files of JSON lines or CSV, as DataFrames: for tests of queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frazil.adapters.spark.cluster import first_lines
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import spark_schema
from frazil.model.columns import Column
from frazil.model.errors import Misuse

ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


def rows_in(session: SqlSession, path: Path, columns: Sequence[Column] = ()) -> Any:
    """Return the rows of a file with these columns, or with those that Spark infers from it.

    Raises Misuse for a file that does not exist, has another ending, or does not have these columns.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415 - a second to import

    kind = ENDINGS.get(path.suffix)
    if kind is None or not path.is_file():
        what = f"{path} is no file of JSON lines or CSV" if path.is_file() else f"there is no file {path}"
        raise Misuse(what, hint=f"its name must end with one of {', '.join(ENDINGS)}")
    reader = session.spark.read.option("mode", "FAILFAST").option("header", "true")
    if columns:
        reader = reader.schema(StructType.fromJson(spark_schema(columns)))
    else:
        reader = reader.option("inferSchema", "true")
    try:
        rows = reader.format(kind).load(str(path.absolute())).collect()
        schema = reader.format(kind).load(str(path.absolute())).schema
    except Exception as problem:
        raise Misuse(
            f"{path} cannot be read: {first_lines(str(problem))}",
            hint="each line must have the columns in their types: timestamps as 2026-01-31T12:00:00Z",
        ) from problem
    return session.spark.createDataFrame(rows, schema)
