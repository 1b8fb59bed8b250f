"""What `evolution: strict` refuses: changes from one writer schema to the next that Confluent's checker refuses.

The rules are those of its compatibility checker for Iceberg tables of format version 2, which compares fields by name,
in order, and with their nullability (`policy/IcebergComparison.java` in the schema registry's repository). Its commit
794611bd86d1 of 22 August 2026 still refuses a field that comes before one that it followed. What it refuses in one
schema by itself is in `formats/validity.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from frazil.materialize.schema.name_tree import join
from frazil.model.columns import UNKNOWN, Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct
from frazil.model.schemas import SchemaFinding

_PROMOTIONS = {("int", "long"), ("float", "double")}


def strict_findings(before: tuple[Column, ...], after: tuple[Column, ...], path: str = "") -> Iterator[SchemaFinding]:
    """Yield why a schema with the columns `after` may not follow one with the columns `before`."""
    there = {column.name: (index, column) for index, column in enumerate(before)}
    last = -1
    for column in after:
        here = join(path, column.name)
        if column.name not in there:
            if column.required:
                yield SchemaFinding(here, "is a new required field: make it optional")
            continue
        index, former = there[column.name]
        if index < last:
            yield SchemaFinding(here, "comes before a field that it followed in the former schema")
        last = index
        if column.required and not former.required:
            yield SchemaFinding(here, "is required, and was optional in the former schema")
        yield from _of_types(former.type, column.type, here)
    named = {column.name for column in after}
    yield from (SchemaFinding(join(path, each.name), "is gone") for each in before if each.name not in named)


def _of_types(before: ColumnType, after: ColumnType, path: str) -> Iterator[SchemaFinding]:
    if UNKNOWN in (before, after):
        return
    match before, after:
        case Struct(columns), Struct(newer):
            yield from strict_findings(columns, newer, path)
        case ListOf(element), ListOf(newer_element):
            yield from _of_types(element, newer_element, path + "[]")
        case MapOf(key, value), MapOf(newer_key, newer_value):
            if key != newer_key:
                yield SchemaFinding(path, f"has map keys of the type {newer_key}, and had {key}")
            yield from _of_types(value, newer_value, path + "{}")
        case _:
            if not _may_become(before, after):
                yield SchemaFinding(path, f"is {after}, and was {before} in the former schema")


def _may_become(before: ColumnType, after: ColumnType) -> bool:
    match before, after:
        case Scalar(name), Scalar(newer):
            return name == newer or (name, newer) in _PROMOTIONS
        case Decimal(precision, scale), Decimal(newer_precision, newer_scale):
            return scale == newer_scale and precision <= newer_precision
        case _:
            return before == after
