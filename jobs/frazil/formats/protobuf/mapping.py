"""Map a message to columns, as `verdicts.py` lists type by type."""

from __future__ import annotations

from dataclasses import replace

from frazil.formats.mapped import PRESENCE, Mapped, judged_columns
from frazil.formats.protobuf.scalars import column_of
from frazil.formats.protobuf.schema import ProtobufSchema
from frazil.formats.protobuf.shape import (
    DecimalValue,
    Empty,
    Entries,
    Enum,
    Items,
    Json,
    Known,
    Leaf,
    Member,
    Members,
    Shape,
    Wrapper,
    expand,
)
from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, ScalarName, Struct

_KNOWN: dict[str, ScalarName] = {"timestamp": "timestamptz", "duration": "long", "date": "date", "time-of-day": "time"}


def map_schema(schema: ProtobufSchema) -> Mapped:
    """Return the columns of rows with this writer schema, and every finding."""
    expanded = expand(schema)
    columns = columns_of(expanded.row)
    if expanded.findings:
        columns = judged_columns(columns, expanded.unmapped)
    name = schema.message.full_name
    if tags := schema.tags.get(name):
        columns = tuple(replace(each, tags=(*each.tags, *tags)) for each in columns)
    others = tuple(each for each in schema.names.values() if each != name)
    return Mapped(columns, expanded.findings, expanded.notes, name, others)


def columns_of(shape: Members) -> tuple[Column, ...]:
    return tuple(
        Column(
            each.name,
            column_type(each.shape),
            tags=each.tags,
            required=_is_required(each),
            is_json=_has_text(each.shape),
        )
        for each in shape.fields
    )


def _has_text(shape: Shape) -> bool:
    """Return whether the values, or those inside lists and maps, are JSON text."""
    match shape:
        case Items(element) | Entries(_, element):
            return _has_text(element)
        case _:
            return isinstance(shape, Json)


def _is_required(member: Member) -> bool:
    """Return whether the column of an absent field has the type's default value: that of a plain scalar of proto3."""
    return not member.is_optional and not isinstance(member.shape, Items | Entries)


def column_type(shape: Shape) -> ColumnType:
    match shape:
        case Leaf(scalar) | Wrapper(scalar):
            return column_of(scalar)
        case Enum() | Json():
            return Scalar("string")
        case Items() | Entries():
            element = column_type(shape.element if isinstance(shape, Items) else shape.value)
            return ListOf(element) if isinstance(shape, Items) else MapOf(column_of(shape.key.scalar), element)
        case Members() | Empty():
            return Struct(columns_of(shape)) if isinstance(shape, Members) else PRESENCE
        case Known(name):
            return Scalar(_KNOWN[name])
        case DecimalValue(precision, scale):
            return Decimal(precision, scale)
