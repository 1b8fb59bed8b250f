"""How deep the columns of a Parquet file may be: Arrow reads no file with deeper ones, though it writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from frazil.formats.mapped import Mapped, judged_columns
from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Struct
from frazil.model.schemas import SchemaFinding

MOST_LEVELS = 98
"""The most levels of a column. Arrow's is 100, with the root and with the struct that holds the fields of a key."""

_PROBLEM = (
    f"nested too deeply for a Parquet file: Arrow reads {MOST_LEVELS} levels, and each list or map takes two of them"
)


def within_files(mapped: Mapped) -> Mapped:
    """Return the columns of a schema, with a finding for each type that is too deep for a file."""
    deep = tuple(_too_deep(mapped.columns, 0, ""))
    if not deep:
        return mapped
    findings = (SchemaFinding(path, _PROBLEM) for path in deep)
    columns = judged_columns(mapped.columns, deep)
    return replace(mapped, columns=columns, findings=(*mapped.findings, *findings))


def _too_deep(columns: tuple[Column, ...], level: int, path: str) -> Iterator[str]:
    for column in columns:
        yield from _too_deep_in(column.type, level + 1, f"{path}.{column.name}" if path else column.name)


def _too_deep_in(column_type: ColumnType, level: int, path: str) -> Iterator[str]:
    """Yield the paths of the first types that are too deep. A list and a map have a level for their repetition."""
    if level > MOST_LEVELS:
        yield path
        return
    match column_type:
        case Struct(columns):
            yield from _too_deep(columns, level, path)
        case ListOf(element):
            yield from _too_deep_in(element, level + 2, path + "[]")
        case MapOf(_, value):
            yield from _too_deep_in(value, level + 2, path + "{}")
