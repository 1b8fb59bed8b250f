"""Run the query of a transformation over rows of files, and compare its rows with those that are expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.adapters.spark.sql.files import rows_in
from frazil.adapters.spark.sql.session import failed_query, schema_of
from frazil.adapters.spark.sql.types import columns_of
from frazil.model.spelling import plural
from frazil.model.transforms import TransformSpec
from frazil.transforms.in_spark import SparkQueries, query_over
from frazil.transforms.tables import TableRows

Row = tuple[str | None, ...]
"""The values of a row as text; None for null."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The rows of a query beside those expected: those that only one of the two has."""

    columns: tuple[str, ...]
    rows: int
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]

    @property
    def agree(self) -> bool:
        return not self.missing and not self.unexpected


def compared(queries: SparkQueries, spec: TransformSpec, files: Mapping[str, Path], expected: Path) -> Compared:
    """Compare what the query gives for the rows of `files`, one for each table, with the rows of a file.

    A table that exists has its own columns, another one those of its file. Raises Misuse, SpecError, and
    QueryFailedError if the query fails on a row.
    """
    frames = {each.partition(".")[2]: _frame(queries, each, files[each]) for each in spec.tables}
    made = query_over(queries.session, spec, frames)
    wanted = rows_in(queries.session, expected, columns_of(schema_of(made)))
    name = f"test {spec.name}"
    found, there = _counted(made, name), _counted(wanted, name)
    return Compared(
        tuple(made.columns),
        found.total(),
        tuple(sorted((there - found).elements(), key=_text)),
        tuple(sorted((found - there).elements(), key=_text)),
    )


def _frame(queries: SparkQueries, table: str, file: Path) -> Any:
    view = queries.lake.load(table)
    return rows_in(queries.session, file, () if view is None else TableRows(view, ()).columns)


def _counted(frame: Any, name: str) -> Counter[Row]:
    try:
        rows = frame.collect()
    except Exception as problem:
        raise failed_query(name, problem) from problem
    return Counter(tuple(None if value is None else str(value) for value in row) for row in rows)


def lines(found: Compared) -> Iterator[str]:
    """Yield the differing rows side by side: expected on the left, found on the right."""
    if found.agree:
        yield f"{plural(found.rows, 'row')}, as expected"
        return
    count = max(len(found.missing), len(found.unexpected))
    left = ["expected", *map(_text, found.missing), *[""] * (count - len(found.missing))]
    right = ["found", *map(_text, found.unexpected), *[""] * (count - len(found.unexpected))]
    width = max(map(len, left))
    yield f"columns: {', '.join(found.columns)}"
    for expected, there in zip(left, right, strict=True):
        yield f"{expected:<{width}}  |  {there}".rstrip()


def _text(row: Sequence[str | None]) -> str:
    return ", ".join('"null"' if each == "null" else "null" if each is None else each for each in row)
