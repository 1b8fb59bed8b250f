"""The result of mapping a writer schema: its columns, and the problems that prevent them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from frazil.model.columns import UNKNOWN, Column, ColumnType, ListOf, MapOf, Scalar, Struct
from frazil.model.schemas import SchemaFinding

LEFT_OUT = "left out: the type holds no data"
"""The text of a note about a field that has no column."""
VALUE = "value"
"""The only column of a schema that is not a record."""
PRESENCE = Struct((Column("present", Scalar("boolean")),))
"""The type of a value without data that is there or not. A struct can take fields that are added later."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The columns of a writer schema, and every reason why it cannot become columns.

    If there are findings, no table can have the columns: they are there to be judged. What no column can hold has the
    type `UNKNOWN`, and if nothing could be mapped, there are none. `notes` list what the columns hold less exactly than
    the schema defines it, and the fields without a column. `record` is the full name of the schema's record, which may
    be empty; None for any other type, which becomes the only column `VALUE`. `other_records` are the full names of
    further messages in a Protobuf schema, which could make the rows instead. `unmatched` are the paths of policies that
    name none of the columns. `is_of_rows` is false for keys and values of other records, which need no column.
    """

    columns: tuple[Column, ...]
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...] = ()
    record: str | None = None
    other_records: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    is_of_rows: bool = True


def judged_columns(columns: tuple[Column, ...], unmapped: Collection[str], path: str = "") -> tuple[Column, ...]:
    """Return the columns of a schema with findings, of the type `UNKNOWN` at the `unmapped` paths.

    Of several columns with one name, the last one stays.
    """
    return tuple({each.name: _judged(each, unmapped, path) for each in columns}.values())


def _judged(column: Column, unmapped: Collection[str], path: str) -> Column:
    judged = _judged_type(column.type, unmapped, f"{path}.{column.name}" if path else column.name)
    return replace(column, type=judged, is_json=column.is_json and not holds_unknown(judged))


def _judged_type(column_type: ColumnType, unmapped: Collection[str], path: str) -> ColumnType:
    if path in unmapped:
        return UNKNOWN
    match column_type:
        case ListOf(element):
            return ListOf(_judged_type(element, unmapped, path + "[]"))
        case MapOf(key, value):
            return MapOf(key, _judged_type(value, unmapped, path + "{}"))
        case Struct(columns):
            return replace(column_type, columns=judged_columns(columns, unmapped, path))
        case _:
            return column_type


def holds_unknown(column_type: ColumnType) -> bool:
    """Return whether a type is `UNKNOWN`, or the items or the values in it are; columns inside it do not count."""
    match column_type:
        case ListOf(inner) | MapOf(_, inner):
            return holds_unknown(inner)
        case _:
            return column_type == UNKNOWN
