"""Find the columns that a Delta log cannot represent, so that `check` reports them before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.schemas import SchemaFinding

_PROBLEMS = {
    "time": "is a time of day, which Delta has no type for: write a timestamp or a long",
    "uuid": "is a uuid, which Delta has no type for: write it as a string",
    "timestamp": "is a local timestamp, which Delta's reader version 1 has no type for: write a timestamp in UTC",
}
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")


def inexpressible(columns: tuple[Column, ...]) -> tuple[SchemaFinding, ...]:
    """Return a finding for each column, at any depth, whose name or type Delta's reader version 1 does not support."""
    return tuple(_of_columns(columns, ""))


def _of_columns(columns: tuple[Column, ...], path: str) -> Iterator[SchemaFinding]:
    taken: dict[str, str] = {}
    for column in columns:
        here = f"{path}.{column.name}" if path else column.name
        if _FORBIDDEN.search(column.name):
            yield SchemaFinding(
                here, "contains a character that Delta does not allow in names: a space or one of , ; { } ( ) ="
            )
        first = taken.setdefault(column.name.lower(), column.name)
        if first != column.name:
            yield SchemaFinding(here, f"differs from {first} only in letter case; Delta names are case-insensitive")
        yield from _of_type(column.type, here)


def _of_type(column_type: ColumnType, path: str) -> Iterator[SchemaFinding]:
    match column_type:
        case Scalar(name) if name in _PROBLEMS:
            yield SchemaFinding(path, _PROBLEMS[name])
        case Fixed():
            yield SchemaFinding(path, f"is a {column_type}, which Delta has no type for: write it as binary")
        case Struct(columns):
            yield from _of_columns(columns, path)
        case ListOf(element):
            yield from _of_type(element, f"{path}[]")
        case MapOf(key, value):
            yield from _of_type(key, f"{path}{{key}}")
            yield from _of_type(value, f"{path}{{}}")
        case _:
            return
