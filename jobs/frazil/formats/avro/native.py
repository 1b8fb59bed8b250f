"""The native decoder, for the schemas that it supports."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import groupby

import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.avro.mapping import columns_of
from frazil.formats.avro.shape import Choice, Cut, Empty, Entries, Items, Leaf, Member, Members, Shape, Skipped
from frazil.formats.avro.sizes import ItemSize
from frazil.formats.avro.types import Enum, Fixed, Primitive
from frazil.formats.limits import NATIVE_LEVELS
from frazil.formats.native import NativeDecoder, native_available, native_core

Description = dict[str, object]


def native_decoder(shape: Members, packed: Collection[str] = ()) -> NativeDecoder | None:
    """Return a decoder for rows of this shape; None if the native module does not support it or is not built.

    A column that `packed` names is a list of no or one record if it is of optional records: a null takes no room.
    """
    if not native_available() or not shape.with_data() or not _is_covered(shape, NATIVE_LEVELS):
        return None
    try:
        names = {each.name for each in shape.fields if each.name in packed and _is_optional_record(each.shape)}
        described = {"kind": "record", "fields": list(_describe_fields(shape, names))}
        schema = pa.schema([_list_of(each) if each.name in names else each for each in arrow_schema(columns_of(shape))])
        return NativeDecoder(schema, native_core("AvroDecoder", json.dumps(described)))
    except ValueError:
        return None


def _is_optional_record(shape: Shape) -> bool:
    return isinstance(shape, Choice) and [type(each.shape) for each in shape.values()] == [Members]


def _list_of(field: pa.Field) -> pa.Field:
    return field.with_type(pa.large_list(pa.field("item", field.type)))


def _is_covered(shape: Shape, levels: int) -> bool:
    inside = _inside(shape)
    return levels > 0 and inside is not None and all(_is_covered(each, levels - 1) for each in inside)


def _inside(shape: Shape) -> tuple[Shape, ...] | None:
    """Return the shapes directly inside one; None for a shape that the native module does not support."""
    match shape:
        case Items(inner) | Entries(inner):
            return (inner,)
        case Members(fields):
            left_out = (field.shape for field in fields if isinstance(field.shape, Empty))
            return None if any(each.has_bytes for each in left_out) else tuple(each.shape for each in _read(shape))
        case Choice(branches):
            return tuple(value.shape for value in shape.values()) if len(branches) < 128 else None
        case Skipped(inner):
            return (inner,)
        case Leaf():
            return ()
        case Cut() | Empty():  # the native module has no columns for what the mapping leaves out
            return None


def _read(shape: Members) -> tuple[Member, ...]:
    """Return the members that take bytes, with and without a column."""
    return tuple(each for each in shape.fields if not isinstance(each.shape, Empty))


def _describe(shape: Shape) -> Description:
    """Return the shape as JSON for `native/src/avro/shape.rs`."""
    match shape:
        case Leaf(leaf):
            return _describe_leaf(leaf)
        case Items(element, item):
            return {"kind": "array", "items": _describe(element), "item": _describe_item(item)}
        case Entries(value, item):
            return {"kind": "map", "values": _describe(value), "item": _describe_item(item)}
        case Members():
            return {"kind": "record", "fields": list(_describe_fields(shape))}
        case Choice(branches):
            return {"kind": "union", "branches": [_describe_member(branch) for branch in branches]}
        case Skipped() | Cut() | Empty():
            raise AssertionError(f"{shape} is not covered")


def _describe_fields(shape: Members, packed: Collection[str] = ()) -> Iterator[Description]:
    """Yield the fields of a record. Skipped ones that follow one another are one field without a name."""
    for is_skipped, fields in groupby(_read(shape), lambda field: isinstance(field.shape, Skipped)):
        if is_skipped:
            inner = [{"name": each.name, "shape": _describe(_kept(each.shape))} for each in fields]
            yield {"name": "", "shape": {"kind": "skipped", "of": {"kind": "record", "fields": inner}}}
        else:
            yield from (_describe_packed(each) if each.name in packed else _describe_member(each) for each in fields)


def _kept(shape: Shape) -> Shape:
    return shape.shape if isinstance(shape, Skipped) else shape


def _describe_item(item: ItemSize) -> Description:
    return {"least": item.least_bytes, "slots": item.slots}


def _describe_member(member: Member | None) -> Description:
    if member is None:
        return {"name": "null", "shape": {"kind": "null"}}
    return {"name": member.name, "shape": _describe(member.shape)}


def _describe_packed(member: Member) -> Description:
    branches = member.shape.branches if isinstance(member.shape, Choice) else ()
    described = [_describe_member(None) if each is None else _describe_record(each) for each in branches]
    return {"name": member.name, "shape": {"kind": "union", "branches": described}}


def _describe_record(member: Member) -> Description:
    return {"name": member.name, "shape": {"kind": "packed", "of": _describe(member.shape)}}


def _describe_leaf(leaf: Primitive | Fixed | Enum) -> Description:
    if isinstance(leaf, Enum):
        return {"kind": "enum", "symbols": list(leaf.symbols)}
    size = leaf.size if isinstance(leaf, Fixed) else None
    logical = leaf.logical
    if logical is None or logical.name == "duration" or (logical.name == "uuid" and size is None):
        return {"kind": "fixed", "size": size} if size is not None else {"kind": leaf.name}
    if logical.name == "decimal":
        return {"kind": "decimal", "precision": logical.precision, "scale": logical.scale, "size": size}
    if "timestamp" in logical.name:
        return {"kind": logical.name.removeprefix("local-"), "utc": not logical.name.startswith("local-")}
    return {"kind": logical.name}
