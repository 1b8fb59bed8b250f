"""A value as it was typed, as a value of a table's columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import IcebergType, IntegerType, LongType, NestedField, StringType, StructType

from frazil.model.errors import Misuse
from frazil.model.snapshot import TableView
from frazil.model.traces import SoughtColumn, SoughtValue

WHOLE_NUMBER = re.compile("[+-]?[0-9]{1,40}")


def sought_in(view: TableView, column: str, text: str) -> SoughtValue:
    """Return the value to look for, in all columns that have or had this name: a file keeps values of each of them.

    Raises Misuse if there is no such column, or if the present one, or each earlier one if there is none now, can
    hold no such value, or holds neither texts nor whole numbers.
    """
    table: Table = view.current
    fields = _named(table, column)
    if not fields:
        names = ", ".join(each.name for each in view.columns)
        raise Misuse(f"{view.identifier} has no column {column}", hint=f"its columns are {names}")
    is_present = _in_structs(table.schema().fields, column.split(".")) is not None
    must_hold = fields[:1] if is_present else fields
    if not any(_has_searched_type(each) for each in must_hold):
        raise Misuse(
            f"{view.identifier}: {column} is a {fields[0].field_type}: expected a column of strings, ints or longs",
            hint="name a column in a struct with a dot, such as `customer.id`",
        )
    if not any(_value(each.field_type, text) is not None for each in must_hold):
        raise Misuse(
            f"{column} is a {fields[0].field_type}: found {text}", hint="expected a whole number that the type can hold"
        )
    return SoughtValue(
        column,
        text,
        tuple(_columns(table, fields, text)),
        labels=tuple(dict.fromkeys((*_names(table, fields), *_partition_fields(table, fields)))),
        unsearched=tuple(
            f"an earlier column {column}, a {each.field_type} with the field id {each.field_id}"
            for each in fields
            if not _has_searched_type(each)
        ),
    )


def _columns(table: Table, fields: Sequence[NestedField], text: str) -> Iterator[SoughtColumn]:
    for field in fields:
        value = _value(field.field_type, text)
        if value is not None:
            now = table.schema().find_column_name(field.field_id)
            partitioned = any(_partition_fields(table, [field]))
            yield SoughtColumn(field.field_id, value, None if now is None else str(now), partitioned)


def _has_searched_type(field: NestedField) -> bool:
    return isinstance(field.field_type, (StringType, IntegerType, LongType))


def _value(kind: IcebergType, text: str) -> str | int | None:
    """Return the text as a value of a type; None if the type has no such value, or is not searched."""
    if isinstance(kind, StringType):
        return text
    if not isinstance(kind, (IntegerType, LongType)) or not WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if kind.min <= number <= kind.max else None


def _schemas(table: Table) -> list[Schema]:
    """Return the present schema, then the others, the newest first."""
    return [table.schema(), *sorted(table.schemas().values(), key=lambda each: each.schema_id, reverse=True)]


def _named(table: Table, column: str) -> list[NestedField]:
    """Return each column that has or had the name, as its newest field; the present one first.

    That field may have another name and a wider type.
    """
    named = (_in_structs(schema.fields, column.split(".")) for schema in _schemas(table))
    ids = dict.fromkeys(field.field_id for field in named if field is not None)
    return [_newest(table, each) for each in ids]


def _newest(table: Table, field_id: int) -> NestedField:
    schema = next(each for each in _schemas(table) if each.find_column_name(field_id) is not None)
    return schema.find_field(field_id)


def _names(table: Table, fields: Sequence[NestedField]) -> Iterator[str]:
    """Yield all names that the columns have and had, those of columns in structs with dots."""
    for schema in _schemas(table):
        yield from (str(name) for each in fields if (name := schema.find_column_name(each.field_id)) is not None)


def _partition_fields(table: Table, fields: Sequence[NestedField]) -> Iterator[str]:
    """Yield the names of the partition fields, of each partition spec, whose values are those of the columns."""
    ids = {each.field_id for each in fields}
    for spec in table.specs().values():
        for part in spec.fields:
            if part.source_id in ids and isinstance(part.transform, (IdentityTransform, TruncateTransform)):
                yield part.name


def _in_structs(fields: Sequence[NestedField], path: Sequence[str]) -> NestedField | None:
    """Return the column that the names lead to through structs; one in a list or map cannot be named."""
    found = next((each for each in fields if each.name == path[0]), None)
    if found is None or not path[1:]:
        return found
    return _in_structs(found.field_type.fields, path[1:]) if isinstance(found.field_type, StructType) else None
