"""Rows in files of JSON lines or CSV, as DataFrames: for tests of queries."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frazil.adapters.spark.cluster import first_lines
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import spark_schema
from frazil.model.columns import Column
from frazil.model.errors import Misuse
from frazil.model.spelling import did_you_mean

ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?:\[[A-Z_.]+\] )?(.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


def rows_in(session: SqlSession, path: Path, columns: Sequence[Column] = ()) -> Any:
    """Return the rows of a file with these columns, or with those that Spark infers from it.

    A column belongs to the one of its name, wherever it is in the file; those that the file does not have are null.
    Raises Misuse for a file that does not exist, has another ending, other columns, or values of other types.
    """
    kind = ENDINGS.get(path.suffix)
    if kind is None or not path.is_file():
        what = f"{path} is no file of JSON lines or CSV" if path.is_file() else f"there is no file {path}"
        raise Misuse(what, hint=f"its name must end with one of {', '.join(ENDINGS)}")
    try:
        return _rows(session, path, kind, columns)
    except Misuse:
        raise
    except Exception as problem:
        causes = " | ".join(_CAUSE.findall(str(problem)))[:600]
        raise Misuse(
            f"{path} cannot be read: {causes or first_lines(str(problem))}",
            hint="each line must have the columns in their types: timestamps as 2026-01-31T12:00:00Z",
        ) from problem


def _rows(session: SqlSession, path: Path, kind: str, columns: Sequence[Column]) -> Any:
    from pyspark.sql.types import StructType  # noqa: PLC0415 - a second to import

    reader = session.spark.read.format(kind).option("mode", "FAILFAST").option("header", "true")
    file = str(path.absolute())
    if not columns:
        frame = reader.option("inferSchema", "true").load(file)
        return session.spark.createDataFrame(frame.collect(), frame.schema)
    names = _header(path) if kind == "csv" else reader.load(file).columns
    _check_names(path, names, [column.name for column in columns])
    by_name, given = {column.name: column for column in columns}, {*names}
    there = [by_name[name] for name in names]  # in the order of the file: Spark reads CSV by position
    rows = reader.schema(StructType.fromJson(spark_schema(there))).load(file).collect() if there else []
    whole = [tuple(row[column.name] if column.name in given else None for column in columns) for row in rows]
    return session.spark.createDataFrame(whole, StructType.fromJson(spark_schema(columns)))


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        return next((cells for cells in csv.reader(lines) if cells), [])


def _check_names(path: Path, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            likely = did_you_mean(name, known)
            hint = f"the columns are {', '.join(known)}"
            raise Misuse(
                f"{path} has a column {name}, which is none of the table's or the query's",
                hint=f"did you mean {likely}? {hint}" if likely else hint,
            )
        if names.count(name) > 1:
            raise Misuse(f"{path} has the column {name} twice", hint="keep one of them")
