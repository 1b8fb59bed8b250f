"""The judge: which payloads are a value of a schema, to the letter of the Avro 1.12 specification.

Sections "Binary Encoding" ("Primitive Types", "Complex Types") and "Logical Types". Libraries are laxer, each in
its own way, so this walk comes before any of them; the native module makes the same walk, with the same words.

| Rule | Reason |
|---|---|
| the payload does not end inside a value | truncated |
| nothing is left after the value | trailing_bytes |
| int: at most 5 bytes, 32 bits; long: at most 10 bytes, 64 bits | bad_varint |
| a boolean is 0 or 1 | bad_boolean |
| the index of a branch or symbol exists in the schema | bad_index |
| a length is not negative and not past the end | bad_length |
| a block's items can fit what is left; a block with a size has exactly that size | bad_length |
| strings and map keys are UTF-8 | bad_utf8 |
| a decimal has no more digits than its precision, and at least one byte | out_of_range |
| a time of day lies in one day; a timestamp in microseconds fits 64 bits | out_of_range |
| records inside themselves are at most 128 deep | too_large |
| items, null or not, fill at most 2^25 places in columns | too_large |
| at most 4,096 items take no bytes, such as nulls in an array | too_large |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from frazil.formats.avro.shape import branch_names
from frazil.formats.avro.sizes import ItemSize, Sizes
from frazil.formats.avro.types import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    NamedType,
    Primitive,
    Record,
    Ref,
    Union,
)
from frazil.formats.avro.wire import (
    Broken,
    read_boolean,
    read_bytes,
    read_index,
    read_int,
    read_long,
    read_string,
    skip_bytes,
)
from frazil.model.dead_letter import Reason

MOST_LEVELS = 128
"""Of records, arrays and maps in one another: what the interpreter's stack is good for."""
MOST_SLOTS = 2**25
"""Nulls take one byte each, but room in every column below them."""
MOST_EMPTY_ITEMS = 2**12
"""Items without bytes cost a producer nothing, so far fewer of them are read."""


@dataclass(slots=True)
class Used:
    """What the walk of one payload has used up so far."""

    depth: int = 0
    slots: int = 0
    empty_items: int = 0

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_LEVELS:
            raise Broken(Reason.TOO_LARGE, f"nested deeper than {MOST_LEVELS} levels")

    def leave(self) -> None:
        self.depth -= 1

    def reserve(self, items: int, size: ItemSize) -> None:
        self.empty_items += items if size.least_bytes == 0 else 0
        if self.empty_items > MOST_EMPTY_ITEMS:
            raise Broken(Reason.TOO_LARGE, f"more than {MOST_EMPTY_ITEMS} items without bytes")
        self.slots += items * size.slots
        if self.slots > MOST_SLOTS:
            raise Broken(Reason.TOO_LARGE, f"more than {MOST_SLOTS} values in columns")


Walk = Callable[[bytes, int, Used], int]
"""From the payload and the position of a value to the position after it."""

_MICROS_A_DAY = 86_400_000_000
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Fault:
    """The first rule that a payload breaks, and where."""

    reason: Reason
    detail: str
    path: str = ""


def examine(schema: AvroSchema, payload: bytes, skip: int = 0, used: Used | None = None) -> Fault | None:
    """The first fault of the payload, read from byte `skip` on; None if it is one value of the schema.

    `used`, if given, is new; afterwards it says what the payload has used up.
    """
    try:
        end = _walk_of(schema)(payload, min(skip, len(payload)), used or Used())
        if end < len(payload):
            raise Broken(Reason.TRAILING_BYTES, f"{len(payload) - end} bytes left over")
    except Broken as broken:
        return Fault(broken.reason, broken.detail, join_segments(broken.segments))
    return None


def join_segments(innermost_first: list[str]) -> str:
    """A dotted path: `order.items[].price`."""
    path = ""
    for segment in reversed(innermost_first):
        path += f".{segment}" if path and segment[0] not in "[{" else segment
    return path


@lru_cache(maxsize=128)
def _walk_of(schema: AvroSchema) -> Walk:
    return _Compiler(schema).record(schema.row())


class _Compiler:
    """Makes one walk for each type. Named types are made once, and looked up as late as they are used."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._sizes = Sizes(schema)
        self._named: dict[str, Walk] = {}
        for name in schema.named:  # definitions come before their uses, so none of these goes deep
            self._ref(name)

    def _type(self, avro_type: AvroType) -> Walk:
        match avro_type:
            case Primitive(name, logical):
                judged = logical is not None and logical.name in _LOGICAL_WALKS
                return _LOGICAL_WALKS[logical.name](logical) if logical and judged else _WALKS[name]
            case Array(items):
                return _blocks(_inside("[]", self._type(items)), self._sizes.item(items))
            case Map(values):
                return _blocks(_entry(self._type(values)), self._sizes.entry(values))
            case Union():
                return self._union(avro_type)
            case Ref(name):
                return self._ref(name)

    def _ref(self, name: str) -> Walk:
        if name not in self._named:
            self._named[name] = self._later(name)
            self._named[name] = self._definition(self._schema.named[name])
        return self._named[name]

    def _later(self, name: str) -> Walk:
        """For uses of a type inside its own definition."""

        def walk(data: bytes, at: int, used: Used) -> int:
            return self._named[name](data, at, used)

        return walk

    def _definition(self, named: NamedType) -> Walk:
        match named:
            case Record():
                return self.record(named)
            case Enum(symbols=symbols):
                return lambda data, at, used: read_index(data, at, len(symbols), "symbol")[1]
            case Fixed(size=size, logical=Logical("decimal") as logical):
                return _decimal(logical, size)
            case Fixed(size=size):
                return lambda data, at, used: skip_bytes(data, at, size)

    def record(self, record: Record) -> Walk:
        fields = tuple(_inside(field.name, self._type(field.type)) for field in record.fields)

        def walk(data: bytes, at: int, used: Used) -> int:
            used.enter()
            for field in fields:
                at = field(data, at, used)
            used.leave()
            return at

        return walk

    def _union(self, union: Union) -> Walk:
        walks = [self._type(branch) for branch in union.branches]
        if len(union.values()) > 1:
            names = branch_names(self._schema, union)
            walks = [_inside(name, walk) for name, walk in zip(names, walks, strict=True)]

        def walk(data: bytes, at: int, used: Used) -> int:
            index, at = read_index(data, at, len(walks), "branch")
            return walks[index](data, at, used)

        return walk


def _inside(segment: str, walk: Walk) -> Walk:
    """The same walk, which adds its place to the path of a fault."""

    def named(data: bytes, at: int, used: Used) -> int:
        try:
            return walk(data, at, used)
        except Broken as broken:
            broken.segments.append(segment)
            raise

    return named


def _entry(value: Walk) -> Walk:
    read_key = _inside("{key}", lambda data, at, used: read_string(data, at))
    read_value = _inside("{}", value)
    return lambda data, at, used: read_value(data, read_key(data, at, used), used)


def _blocks(item: Walk, item_size: ItemSize) -> Walk:
    """Blocks of items until an empty one: what arrays and maps are."""

    def walk(data: bytes, at: int, used: Used) -> int:
        used.enter()
        while True:
            count, at = read_long(data, at)
            if count == 0:
                used.leave()
                return at
            size, at = read_long(data, at) if count < 0 else (None, at)
            end = _block_end(data, at, abs(count), size, item_size.least_bytes)
            used.reserve(abs(count), item_size)
            for _ in range(abs(count)):
                at = item(data, at, used)
            if end is not None and at != end:
                raise Broken(Reason.BAD_LENGTH, f"block of {size} bytes, its items take {at - end + (size or 0)}")

    return walk


def _block_end(data: bytes, at: int, count: int, size: int | None, least_bytes: int) -> int | None:
    left = len(data) - at
    if size is not None and not 0 <= size <= left:
        raise Broken(Reason.BAD_LENGTH, f"block of {size} bytes, {left} bytes left")
    if count * least_bytes > left:
        raise Broken(Reason.BAD_LENGTH, f"block of {count} items, {left} bytes left")
    return None if size is None else at + size


def _decimal(logical: Logical, size: int | None = None) -> Walk:
    bound = 10**logical.precision

    def walk(data: bytes, at: int, used: Used) -> int:
        start, end = read_bytes(data, at) if size is None else (at, skip_bytes(data, at, size))
        if start == end:
            raise Broken(Reason.OUT_OF_RANGE, "decimal of 0 bytes")
        if not -bound < int.from_bytes(data[start:end], "big", signed=True) < bound:
            raise Broken(Reason.OUT_OF_RANGE, f"decimal of more than {logical.precision} digits")
        return end

    return walk


def _within(read: Callable[[bytes, int], tuple[int, int]], least: int, most: int, what: str) -> Walk:
    def walk(data: bytes, at: int, used: Used) -> int:
        value, end = read(data, at)
        if not least <= value <= most:
            raise Broken(Reason.OUT_OF_RANGE, f"{what} {value}")
        return end

    return walk


def _milliseconds(_: Logical) -> Walk:
    """A timestamp whose microseconds fit 64 bits: rounded towards zero on both sides."""
    return _within(read_long, -(_MOST_LONG // 1000), _MOST_LONG // 1000, "timestamp-millis")


_WALKS: dict[str, Walk] = {
    "null": lambda data, at, used: at,
    "boolean": lambda data, at, used: read_boolean(data, at),
    "int": lambda data, at, used: read_int(data, at)[1],
    "long": lambda data, at, used: read_long(data, at)[1],
    "float": lambda data, at, used: skip_bytes(data, at, 4),
    "double": lambda data, at, used: skip_bytes(data, at, 8),
    "bytes": lambda data, at, used: read_bytes(data, at)[1],
    "string": lambda data, at, used: read_string(data, at),
}
_LOGICAL_WALKS: dict[str, Callable[[Logical], Walk]] = {
    "decimal": _decimal,
    "time-millis": lambda _: _within(read_int, 0, _MICROS_A_DAY // 1000 - 1, "time-millis"),
    "time-micros": lambda _: _within(read_long, 0, _MICROS_A_DAY - 1, "time-micros"),
    "timestamp-millis": _milliseconds,
    "local-timestamp-millis": _milliseconds,
}
