"""A value as it was typed, as a value of a table's column."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from frazil.model.errors import Misuse
from frazil.model.snapshot import TableView
from frazil.model.traces import SoughtValue


def sought_in(view: TableView, column: str, text: str) -> SoughtValue:
    """Return the value to look for. Columns that the table has no longer are known, too.

    Raises Misuse if there is no such column, or if it holds neither texts nor whole numbers.
    """
    field = _field(view.current, column)
    if field is None:
        names = ", ".join(each.name for each in view.columns)
        raise Misuse(f"{view.identifier} has no column {column}", hint=f"its columns are {names}")
    if not isinstance(field.field_type, (StringType, IntegerType, LongType)):
        raise Misuse(
            f"{view.identifier}: {column} is a {field.field_type}: expected a column of strings, ints or longs",
            hint="name a column in a struct with a dot, such as `customer.id`",
        )
    try:
        value = text if isinstance(field.field_type, StringType) else int(text)
    except ValueError as problem:
        raise Misuse(f"{column} is a {field.field_type}: found {text}", hint="expected a whole number") from problem
    specs = view.current.specs().values()
    partitioned = any(part.source_id == field.field_id for spec in specs for part in spec.fields)
    return SoughtValue(column, field.field_id, value, text, partitioned)


def _field(table: Table, column: str) -> NestedField | None:
    schemas: list[Schema] = [table.schema(), *reversed(table.schemas().values())]
    return next(filter(None, (_in_structs(each.fields, column.split(".")) for each in schemas)), None)


def _in_structs(fields: Sequence[NestedField], path: Sequence[str]) -> NestedField | None:
    """Return the column that the names lead to through structs; one in a list or map cannot be named."""
    found = next((each for each in fields if each.name == path[0]), None)
    if found is None or not path[1:]:
        return found
    return _in_structs(found.field_type.fields, path[1:]) if isinstance(found.field_type, StructType) else None
