"""What `evolution: strict` refuses: changes from one writer schema to the next that Confluent's checker refuses.

The rules are those of its compatibility checker for Iceberg tables of format version 2, which compares fields by name,
in order, and with their nullability (`policy/IcebergComparison.java` in the schema registry's repository). Its commit
794611bd86d1 of 22 August 2026 still refuses a field that comes before one that it followed. What it refuses in one
schema by itself is in `formats/validity.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from frazil.materialize.schema.name_tree import join
from frazil.model.columns import UNKNOWN, Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct
from frazil.model.declared import EXTRA
from frazil.model.schemas import SchemaFinding

_PROMOTIONS = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class StrictFinding:
    """A change that the checker refuses; `of_type`: that of a type, which the table may be unable to follow as well."""

    path: str
    problem: str
    of_type: bool = False

    def __str__(self) -> str:
        return str(self.finding)

    @property
    def finding(self) -> SchemaFinding:
        return SchemaFinding(self.path, self.problem)


def strict_findings(before: tuple[Column, ...], after: tuple[Column, ...], path: str = "") -> Iterator[StrictFinding]:
    """Yield why a schema with the columns `after` may not follow one with the columns `before`."""
    there = {column.name: (index, column) for index, column in enumerate(before)}
    last = -1
    for column in after:
        here = join(path, column.name)
        if column.name not in there:
            if not _may_be_missing(column):
                yield StrictFinding(here, "is a new required field: make it optional")
            continue
        index, former = there[column.name]
        if index < last:
            yield StrictFinding(here, "comes before a field that it followed in the former schema")
        last = index
        if not former.required and not _may_be_missing(column):
            yield StrictFinding(here, "is required, and was optional in the former schema")
        yield from _of_types(former.type, column.type, here)
    named = {column.name for column in after}
    yield from (StrictFinding(join(path, each.name), "is gone") for each in before if each.name not in named)


def _may_be_missing(column: Column) -> bool:
    """Return whether Confluent's checker takes a field for an optional one: an array or a map with a default too."""
    return not column.required or (column.has_default and isinstance(column.type, ListOf | MapOf))


def in_confluents_order(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the fields of a JSON Schema as Confluent's checker sorts them: by `connect.index`, others last, by name.

    See `convertRowType` in `json/JsonToLogicalTypeConverter.java`.
    """

    def place(column: Column) -> tuple[bool, float, str]:
        index = float("inf") if column.index is None else column.index
        return (column.name == EXTRA, index, column.key or column.name)

    return tuple(replace(each, type=_inside_in_order(each.type)) for each in sorted(columns, key=place))


def _inside_in_order(column_type: ColumnType) -> ColumnType:
    match column_type:
        case Struct(columns):
            return replace(column_type, columns=in_confluents_order(columns))
        case ListOf(element):
            return ListOf(_inside_in_order(element))
        case MapOf(key, value):
            return MapOf(key, _inside_in_order(value))
        case _:
            return column_type


def _of_types(before: ColumnType, after: ColumnType, path: str) -> Iterator[StrictFinding]:
    if UNKNOWN in (before, after):
        return
    match before, after:
        case Struct(columns), Struct(newer):
            yield from strict_findings(columns, newer, path)
        case ListOf(element), ListOf(newer_element):
            yield from _of_types(element, newer_element, path + "[]")
        case MapOf(key, value), MapOf(newer_key, newer_value):
            if key != newer_key:
                yield StrictFinding(path, f"has map keys of the type {newer_key}, and had {key}", of_type=True)
            yield from _of_types(value, newer_value, path + "{}")
        case _:
            if not _may_become(before, after):
                yield StrictFinding(path, f"is {after}, and was {before} in the former schema", of_type=True)


def _may_become(before: ColumnType, after: ColumnType) -> bool:
    match before, after:
        case Scalar(name), Scalar(newer):
            return name == newer or (name, newer) in _PROMOTIONS
        case Decimal(precision, scale), Decimal(newer_precision, newer_scale):
            return scale == newer_scale and precision <= newer_precision
        case _:
            return before == after
