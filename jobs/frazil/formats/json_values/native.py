"""The native decoder, for the shapes that it supports."""

from __future__ import annotations

import json

from frazil.formats.arrow import arrow_schema
from frazil.formats.json_values.shape import (
    Entries,
    Items,
    Leaf,
    Member,
    Members,
    Money,
    Nothing,
    Row,
    Shape,
    columns_of,
    inside,
    slots_of,
)
from frazil.formats.limits import NATIVE_LEVELS
from frazil.formats.native import NativeDecoder, native_available, native_core

Description = dict[str, object]


def native_decoder(row: Row) -> NativeDecoder | None:
    """Return a decoder for rows of this shape; None if the native module does not support it or is not built."""
    if not native_available() or not columns_of(row) or _levels(row.members) > NATIVE_LEVELS:
        return None
    return NativeDecoder(arrow_schema(columns_of(row)), native_core("JsonDecoder", json.dumps(_describe_row(row))))


def _levels(shape: Shape) -> int:
    return 1 + max(map(_levels, inside(shape)), default=0)


def _describe_row(row: Row) -> Description:
    """Return the shape as JSON for `native/src/json/shape.rs`."""
    return {
        "fields": [_describe_member(each) for each in row.members.fields],
        "is_object": row.is_object,
        "keeps_extra": row.keeps_extra,
        "slots": slots_of(row.members),
    }


def _describe_member(member: Member) -> Description:
    return {"key": member.key, "name": member.name, "shape": _describe(member.shape)}


def _describe(shape: Shape) -> Description:
    match shape:
        case Leaf(kind):
            return {"kind": kind}
        case Money(precision, scale, takes_base64):
            return {"kind": "decimal", "precision": precision, "scale": scale, "takes_base64": takes_base64}
        case Nothing():
            return {"kind": "nothing"}
        case Items(element):
            return {"kind": "array", "items": _describe(element), "slots": slots_of(element)}
        case Entries(value):
            return {"kind": "map", "values": _describe(value), "slots": 1 + slots_of(value)}
        case Members(fields):
            return {"kind": "object", "fields": [_describe_member(each) for each in fields]}
