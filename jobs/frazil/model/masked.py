"""Which columns of a table are masked, and how: a table property keeps it, so that no schema can unmask a column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Struct, walk

MASKED_PROPERTY = "frazil.masked"
"""A table property: a JSON object from the dotted paths (as in `columns.walk`) of masked columns to their masks."""


def masked_property(columns: tuple[Column, ...]) -> dict[str, str]:
    """Return the property for these columns; empty if none is masked."""
    masks = {path: column.mask for path, column in walk(columns) if column.mask}
    return {MASKED_PROPERTY: json.dumps(masks, sort_keys=True, ensure_ascii=False)} if masks else {}


def masked_as(columns: tuple[Column, ...], properties: Mapping[str, str]) -> tuple[Column, ...]:
    """Return a table's columns with `Column.mask` set from the table's properties."""
    masks = json.loads(properties.get(MASKED_PROPERTY, "{}"))
    return _mark(columns, "", masks) if masks else columns


def _mark(columns: tuple[Column, ...], path: str, masks: Mapping[str, str]) -> tuple[Column, ...]:
    here = ((column, f"{path}.{column.name}" if path else column.name) for column in columns)
    return tuple(replace(each, type=_mark_type(each.type, at, masks), mask=masks.get(at, "")) for each, at in here)


def _mark_type(column_type: ColumnType, path: str, masks: Mapping[str, str]) -> ColumnType:
    match column_type:
        case Struct(columns):
            return replace(column_type, columns=_mark(columns, path, masks))
        case ListOf(element):
            return ListOf(_mark_type(element, f"{path}[]", masks))
        case MapOf(key, value):
            return MapOf(key, _mark_type(value, f"{path}{{}}", masks))
        case _:
            return column_type
