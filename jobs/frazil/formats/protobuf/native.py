"""The native decoder, for the schemas that it supports."""

from __future__ import annotations

import json

from frazil.formats.arrow import arrow_schema
from frazil.formats.limits import NATIVE_LEVELS
from frazil.formats.native import NativeDecoder, native_available, native_core
from frazil.formats.protobuf.mapping import columns_of
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
)

Description = dict[str, object]


def native_decoder(schema: ProtobufSchema, shape: Members) -> NativeDecoder | None:
    """Return a decoder for rows of this shape; None if the native module does not support it or is not built."""
    if not native_available() or not shape.fields or not _is_covered(shape, NATIVE_LEVELS):
        return None
    names = [[list(path), name] for path, name in schema.names.items()]
    text = json.dumps({"message": _describe_message(shape), "path": list(schema.path), "names": names})
    try:
        return NativeDecoder(arrow_schema(columns_of(shape)), native_core("ProtobufDecoder", text))
    except ValueError:
        return None


def _is_covered(shape: Shape, levels: int) -> bool:
    """Return whether the shape is nested no deeper than this, and none of its columns is JSON text."""
    return levels > 0 and not isinstance(shape, Json) and all(_is_covered(e, levels - 1) for e in _inside(shape))


def _inside(shape: Shape) -> tuple[Shape, ...]:
    match shape:
        case Items(inner) | Entries(_, inner):
            return (inner,)
        case Members(fields):
            return tuple(each.shape for each in fields)
        case _:
            return ()


def _describe(shape: Shape) -> Description:
    """Return the shape as JSON for `native/src/protobuf/shape.rs`."""
    match shape:
        case Items(element, slots):
            return {"kind": "list", "element": _describe(element), "slots": slots}
        case Entries(key, value, slots):
            return {"kind": "map", "key": _describe(key), "value": _describe(value), "slots": slots}
        case Members():
            return {"kind": "message", "message": _describe_message(shape)}
        case Leaf() | Enum():
            return _describe_leaf(shape)
        case _:
            return _describe_known(shape)


def _describe_leaf(shape: Leaf | Enum) -> Description:
    if isinstance(shape, Leaf):
        return {"kind": "scalar", "scalar": shape.scalar}
    return {"kind": "enum", "symbols": list(shape.symbols.items()), "default": shape.default}


def _describe_known(shape: Empty | Wrapper | Known | DecimalValue | Json) -> Description:
    match shape:
        case Empty():
            return {"kind": "empty"}
        case Wrapper(scalar):
            return {"kind": "wrapper", "scalar": scalar}
        case Known(name):
            return {"kind": name}
        case DecimalValue(precision, scale):
            return {"kind": "decimal", "precision": precision, "scale": scale}
        case Json():
            raise AssertionError(f"{shape} is not covered")


def _describe_message(shape: Members) -> Description:
    return {"fields": [_describe_member(field) for field in shape.fields]}


def _describe_member(member: Member) -> Description:
    return {
        "name": member.name,
        "number": member.number,
        "shape": _describe(member.shape),
        "optional": member.is_optional,
        "oneof": member.oneof,
    }
