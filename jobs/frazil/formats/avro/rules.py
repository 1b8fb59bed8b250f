"""Validate that a payload is a value of its schema, exactly as the Avro 1.12 specification defines it.

The rules are in its sections "Binary Encoding" ("Primitive Types", "Complex Types") and "Logical Types". Avro
libraries accept more, each in its own way, so payloads are validated before a library decodes them. The native module
(`native/src/avro/rules.rs`) implements the same rules and gives the same error messages.

| Rule | Reason |
|---|---|
| the payload does not end inside a value | truncated |
| nothing is left after the value | trailing_bytes |
| int: at most 5 bytes, 32 bits; long: at most 10 bytes, 64 bits | bad_varint |
| a boolean is 0 or 1 | bad_boolean |
| the index of a branch or symbol exists in the schema | bad_index |
| a length is not negative and not past the end | bad_length |
| a block's items can fit in the remaining bytes; a block with a size has exactly that size | bad_length |
| strings and map keys are UTF-8 | bad_utf8 |
| a decimal has no more digits than its precision, and at least one byte | out_of_range |
| a time of day is less than 24 hours; a timestamp in microseconds fits in 64 bits | out_of_range |
| records, arrays and maps are nested at most 128 levels deep | too_large |
| items, null or not, fill at most 2^25 slots in columns | too_large |
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
    check_length,
    read_boolean,
    read_bytes,
    read_index,
    read_int,
    read_long,
    read_string,
    skip_bytes,
)
from frazil.formats.faults import Broken, Fault, counted, fault_of
from frazil.formats.limits import check_slots
from frazil.model.dead_letter import Reason

MOST_LEVELS = 128
"""The maximum nesting of records, arrays and maps in a payload. Deeper recursion could overflow Python's stack."""
MOST_EMPTY_ITEMS = 2**12
"""The maximum number of items per payload that take no bytes. They cost a producer nothing, so the limit is lower."""


@dataclass(slots=True)
class Used:
    """How much of the limits one payload has used so far."""

    depth: int = 0
    slots: int = 0
    empty_items: int = 0

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_LEVELS:
            raise Broken(Reason.TOO_LARGE, f"the payload nests values more than {MOST_LEVELS} levels deep")

    def leave(self) -> None:
        self.depth -= 1

    def reserve(self, items: int, size: ItemSize) -> None:
        self.empty_items += items if size.least_bytes == 0 else 0
        if self.empty_items > MOST_EMPTY_ITEMS:
            raise Broken(Reason.TOO_LARGE, f"the payload has more than {MOST_EMPTY_ITEMS} items that take no bytes")
        self.slots += items * size.slots
        check_slots(self.slots)


Walk = Callable[[bytes, int, Used], int]
"""Maps a payload and the position of a value to the position after the value. Raises Broken."""

_MICROS_A_DAY = 86_400_000_000
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1


def examine(schema: AvroSchema, payload: bytes, skip: int = 0, used: Used | None = None) -> Fault | None:
    """Return the first fault of the payload, starting at byte `skip`; None if it is one value of the schema.

    If `used` is given, it must be new; it then counts what the payload uses of the limits.
    """
    try:
        end = _walk_of(schema)(payload, min(skip, len(payload)), used or Used())
        if end < len(payload):
            more = counted(len(payload) - end, "more byte")
            raise Broken(Reason.TRAILING_BYTES, f"expected the end of the payload, found {more}")
    except Broken as broken:
        return fault_of(broken)
    return None


@lru_cache(maxsize=128)
def _walk_of(schema: AvroSchema) -> Walk:
    return _Compiler(schema).record(schema.row())


class _Compiler:
    """Builds one walk for each type. The walk of a named type is built once and shared by its uses."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._sizes = Sizes(schema)
        self._named: dict[str, Walk] = {}
        for name in schema.named:  # definitions come before their uses, which keeps the recursion shallow
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
        """Return a walk for uses of a type inside its own definition."""

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
    """Return the same walk, but add `segment` to the path of a fault that it raises."""

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
    """Walk an array or a map: blocks of items, ended by an empty block."""

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
                said, taken = counted(size or 0, "byte"), at - end + (size or 0)
                raise Broken(Reason.BAD_LENGTH, f"the block is said to be {said} long, but its items take {taken}")

    return walk


def _block_end(data: bytes, at: int, count: int, size: int | None, least_bytes: int) -> int | None:
    left = len(data) - at
    if size is not None:
        check_length("block", size, left)
    if count * least_bytes > left:
        items, remaining = counted(count, "item"), counted(left, "byte")
        raise Broken(Reason.BAD_LENGTH, f"the block has {items}, but the payload has {remaining} left")
    return None if size is None else at + size


def _decimal(logical: Logical, size: int | None = None) -> Walk:
    bound = 10**logical.precision

    def walk(data: bytes, at: int, used: Used) -> int:
        start, end = read_bytes(data, at) if size is None else (at, skip_bytes(data, at, size))
        if start == end:
            raise Broken(Reason.OUT_OF_RANGE, "expected a decimal of at least 1 byte, found 0")
        if not -bound < int.from_bytes(data[start:end], "big", signed=True) < bound:
            raise Broken(Reason.OUT_OF_RANGE, f"the decimal has more digits than its precision of {logical.precision}")
        return end

    return walk


def _within(read: Callable[[bytes, int], tuple[int, int]], least: int, most: int, what: str) -> Walk:
    def walk(data: bytes, at: int, used: Used) -> int:
        value, end = read(data, at)
        if not least <= value <= most:
            raise Broken(Reason.OUT_OF_RANGE, f"expected a {what} from {least} to {most}, found {value}")
        return end

    return walk


def _milliseconds(_: Logical) -> Walk:
    """Bound a timestamp so that its microseconds fit in 64 bits; both bounds are rounded towards zero."""
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
