"""Which columns a writer schema becomes.

| Avro | Column |
|---|---|
| boolean, int, long, float, double, string | the same |
| bytes, fixed(n) | binary, fixed(n) |
| decimal(p, s) on bytes or fixed | decimal(p, s), p at most 38 |
| uuid on string, on fixed(16) | string, uuid |
| date, time-* | date, time |
| timestamp-*, local-timestamp-* | timestamptz, timestamp (nanoseconds are cut to microseconds, downwards) |
| duration | fixed(12) |
| enum | string |
| array, map, record | list, map, struct |
| a union of null and one type, in any order | that type |
| any other union | a struct with one column a branch, all but one of them null |
| a record inside itself, below the third level | JSON text |
| anything but a record at the top | one column, `value` |
"""

from __future__ import annotations

from dataclasses import dataclass

from jobs.formats.avro.shape import Choice, Cut, Entries, Items, Leaf, Member, Members, Shape, shape_of
from jobs.formats.avro.types import AvroSchema, Enum, Fixed, Logical, Primitive
from jobs.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, ScalarName, Struct
from jobs.model.columns import Fixed as FixedColumn
from jobs.model.schemas import Finding

_PRIMITIVES: dict[str, ScalarName] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL: dict[str, ScalarName] = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "timestamp-nanos": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "local-timestamp-nanos": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Mapped:
    """The columns, and every reason why there cannot be any. With findings, `columns` are not to be used."""

    columns: tuple[Column, ...]
    findings: tuple[Finding, ...]


def map_schema(schema: AvroSchema) -> Mapped:
    """The columns that rows of this writer schema have, and all findings at once."""
    shape, findings = shape_of(schema)
    return Mapped(() if findings else columns_of(shape), findings)


def columns_of(shape: Members) -> tuple[Column, ...]:
    return tuple(_column(field) for field in shape.fields)


def _column(member: Member) -> Column:
    return Column(member.name, column_type(member.shape), member.aliases, member.doc)


def column_type(shape: Shape) -> ColumnType:
    match shape:
        case Leaf(leaf):
            return _leaf_type(leaf)
        case Items(element):
            return ListOf(column_type(element))
        case Entries(value):
            return MapOf(Scalar("string"), column_type(value))
        case Members(fields):
            return Struct(tuple(_column(field) for field in fields))
        case Choice():
            values = shape.values()
            return (
                column_type(values[0].shape) if len(values) == 1 else Struct(tuple(map(_column, values)), is_union=True)
            )
        case Cut():
            return Scalar("string")


def _leaf_type(leaf: Primitive | Fixed | Enum) -> ColumnType:
    if isinstance(leaf, Enum):
        return Scalar("string")
    if leaf.logical and leaf.logical.name == "decimal":
        return Decimal(leaf.logical.precision, leaf.logical.scale)
    if isinstance(leaf, Fixed):
        return Scalar("uuid") if leaf.logical == Logical("uuid") else FixedColumn(leaf.size)
    if leaf.logical and leaf.logical.name in _LOGICAL:
        return Scalar(_LOGICAL[leaf.logical.name])
    return Scalar(_PRIMITIVES[leaf.name])
