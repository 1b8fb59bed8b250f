"""The structs of a table that hold unions. Iceberg has no union type, so a table property keeps their paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Struct

UNIONS_PROPERTY = "frazil.unions"
"""A table property: a JSON list of the dotted paths (as in `columns.walk`) of structs that hold unions."""


def unions_property(columns: tuple[Column, ...]) -> dict[str, str]:
    """Return the property for these columns; empty without unions."""
    paths = sorted(_paths(columns))
    return {UNIONS_PROPERTY: json.dumps(paths)} if paths else {}


def marked(columns: tuple[Column, ...], properties: Mapping[str, str]) -> tuple[Column, ...]:
    """Return a table's columns with `Struct.is_union` set from the table's properties."""
    paths = frozenset(json.loads(properties.get(UNIONS_PROPERTY, "[]")))
    return _mark(columns, "", paths) if paths else columns


def marked_like(columns: tuple[Column, ...], wanted: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return a table's columns with `Struct.is_union` set where the column of the same path in `wanted` is a union."""
    return _mark(columns, "", frozenset(_paths(wanted)))


def _paths(columns: tuple[Column, ...], path: str = "") -> Iterator[str]:
    for column in columns:
        yield from _paths_in(column.type, f"{path}.{column.name}" if path else column.name)


def _paths_in(column_type: ColumnType, path: str) -> Iterator[str]:
    match column_type:
        case Struct(columns):
            if column_type.is_union:
                yield path
            yield from _paths(columns, path)
        case ListOf(element):
            yield from _paths_in(element, f"{path}[]")
        case MapOf(_, value):
            yield from _paths_in(value, f"{path}{{}}")
        case _:
            return


def _mark(columns: tuple[Column, ...], path: str, unions: frozenset[str]) -> tuple[Column, ...]:
    here = ((column, f"{path}.{column.name}" if path else column.name) for column in columns)
    return tuple(replace(column, type=_mark_type(column.type, at, unions)) for column, at in here)


def _mark_type(column_type: ColumnType, path: str, unions: frozenset[str]) -> ColumnType:
    match column_type:
        case Struct(columns):
            return Struct(_mark(columns, path, unions), is_union=path in unions)
        case ListOf(element):
            return ListOf(_mark_type(element, f"{path}[]", unions))
        case MapOf(key, value):
            return MapOf(key, _mark_type(value, f"{path}{{}}", unions))
        case _:
            return column_type
