"""The native decoder, for what it covers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from jobs.formats.arrow import arrow_schema
from jobs.formats.avro.mapping import columns_of
from jobs.formats.avro.shape import Choice, Cut, Entries, Items, Leaf, Member, Members, Shape
from jobs.formats.avro.sizes import ItemSize
from jobs.formats.avro.types import Enum, Fixed, Primitive
from jobs.formats.decoder import Decoded
from jobs.model.dead_letter import Reason, Reject

if TYPE_CHECKING:
    import frazil_native

MOST_LEVELS = 30
"""Deeper shapes are left to the fallback: Arrow hands over at most 64 levels between libraries."""
Told = dict[str, object]


@cache
def native_available() -> bool:
    """Whether the native module is built for this machine."""
    try:
        import frazil_native  # noqa: F401, PLC0415 - it may not be there
    except ImportError:
        return False
    return True


def native_decoder(shape: Members) -> NativeDecoder | None:
    """A decoder for rows of this shape; None if the native module does not cover it, or is not there."""
    if not native_available() or not _is_covered(shape, MOST_LEVELS):
        return None
    import frazil_native  # noqa: PLC0415 - it may not be there

    text = json.dumps(_told(shape))
    try:
        return NativeDecoder(arrow_schema(columns_of(shape)), lambda: frazil_native.AvroDecoder(text))
    except ValueError:
        return None


class NativeDecoder:
    """arrow-avro behind the rules, without the interpreter's lock."""

    def __init__(self, schema: pa.Schema, new_core: Callable[[], frazil_native.AvroDecoder]) -> None:
        self.schema = schema
        self._new_core = new_core
        self._core = new_core()

    def decode(self, payloads: Sequence[bytes], *, skip: int = 0) -> Decoded:
        given = payloads if isinstance(payloads, list) else list(payloads)
        try:
            rows, faults, truncated_nanos = self._core.decode(given, skip)
        except BaseException:
            self._core = self._new_core()  # it may hold half a row
            raise
        rejects = tuple(Reject(index, Reason(reason), detail, path) for index, reason, detail, path in faults)
        return Decoded(rows, rejects, truncated_nanos)


def _is_covered(shape: Shape, levels: int) -> bool:
    if levels == 0:
        return False
    match shape:
        case Leaf():
            return True
        case Items(inner) | Entries(inner):
            return _is_covered(inner, levels - 1)
        case Members(members):
            return all(_is_covered(member.shape, levels - 1) for member in members)
        case Choice(branches):
            return len(branches) < 128 and all(_is_covered(value.shape, levels - 1) for value in shape.values())
        case Cut():
            return False


def _told(shape: Shape) -> Told:
    """The shape in the words of `native/src/shape.rs`."""
    match shape:
        case Leaf(leaf):
            return _told_leaf(leaf)
        case Items(element, item):
            return {"kind": "array", "items": _told(element), "item": _told_item(item)}
        case Entries(value, item):
            return {"kind": "map", "values": _told(value), "item": _told_item(item)}
        case Members(fields):
            return {"kind": "record", "fields": [_told_member(field) for field in fields]}
        case Choice(branches):
            return {"kind": "union", "branches": [_told_member(branch) for branch in branches]}
        case Cut(name):
            raise AssertionError(f"{name} is not covered")


def _told_item(item: ItemSize) -> Told:
    return {"least": item.least_bytes, "slots": item.slots}


def _told_member(member: Member | None) -> Told:
    if member is None:
        return {"name": "null", "shape": {"kind": "null"}}
    return {"name": member.name, "shape": _told(member.shape)}


def _told_leaf(leaf: Primitive | Fixed | Enum) -> Told:
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
