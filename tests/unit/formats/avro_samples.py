"""Random writer schemas and random payloads of them, valid and broken."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from frazil.formats.avro.schema import parse_schema
from frazil.formats.avro.types import Array, AvroSchema, AvroType, Enum, Fixed, Map, Primitive, Record, Union

Json = Any

PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
ANNOTATED: list[Json] = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-nanos"},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
    {"type": "bytes", "logicalType": "decimal", "precision": 0},
    {"type": "string", "logicalType": "uuid"},
    {"type": "long", "logicalType": "no-such-type"},
]
NAMED: list[Json] = [
    {"type": "fixed", "size": 3},
    {"type": "fixed", "size": 16, "logicalType": "uuid"},
    {"type": "fixed", "size": 12, "logicalType": "duration"},
    {"type": "fixed", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1},
    {"type": "fixed", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0},
    {"type": "enum", "symbols": ["A", "B", "C"]},
]


@st.composite
def schemas(draw: st.DrawFn, *, recursive: bool = False) -> Json:
    """A record schema. A recursive one refers to itself from within."""
    drawn = _Drawn(draw, recursive=recursive)
    return drawn.record("Row", draw(st.integers(0, 3)))


class _Drawn:
    def __init__(self, draw: st.DrawFn, *, recursive: bool) -> None:
        self.draw = draw
        self.recursive = recursive
        self.names = iter(f"T{index}" for index in range(10_000))

    def type(self, depth: int, *, in_union: bool = False) -> Json:
        simple = [self.primitive, self.annotated, self.named, self.empty_record if in_union else self.empty]
        nested = [self.array, self.map, self.nested_record] if depth else []
        unions = [] if in_union else [self.union, self.optional]
        itself = [lambda _: "Row" if in_union else ["null", "Row"]] if self.recursive and depth < 3 else []
        return self.draw(st.sampled_from([*simple, *nested, *unions, *itself]))(depth)

    def primitive(self, _: int) -> Json:
        return self.draw(st.sampled_from(PRIMITIVES))

    def annotated(self, _: int) -> Json:
        return self.draw(st.sampled_from(ANNOTATED))

    def named(self, _: int) -> Json:
        return {**self.draw(st.sampled_from(NAMED)), "name": next(self.names)}

    def empty(self, depth: int) -> Json:
        return self.draw(st.sampled_from(["null", ["null"], self.empty_record(depth)]))

    def empty_record(self, _: int) -> Json:
        return {"type": "record", "name": next(self.names), "fields": []}

    def array(self, depth: int) -> Json:
        return {"type": "array", "items": self.type(depth - 1)}

    def map(self, depth: int) -> Json:
        return {"type": "map", "values": self.type(depth - 1)}

    def nested_record(self, depth: int) -> Json:
        return self.record(next(self.names), depth - 1)

    def optional(self, depth: int) -> Json:
        return self.draw(st.permutations(["null", self.type(depth, in_union=True)]))

    def union(self, depth: int) -> Json:
        count = self.draw(st.integers(1, 3))
        given = ["null"] * self.draw(st.booleans()) + [self.type(depth, in_union=True) for _ in range(count)]
        return self.draw(st.permutations(list({_kind(branch): branch for branch in given}.values())))

    def record(self, name: str, depth: int) -> Json:
        count = self.draw(st.integers(1, 4))
        fields = [{"name": f"f{index}", "type": self.type(depth)} for index in range(count)]
        return {"type": "record", "name": name, "fields": fields}


def _kind(branch: Json) -> str:
    return branch if isinstance(branch, str) else branch.get("name", branch["type"])


def zigzag(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


class Sampler:
    """Writes random values of a schema as bytes, with every form of block that the specification knows."""

    def __init__(self, schema: AvroSchema, rng: random.Random) -> None:
        self.schema = schema
        self.rng = rng

    def payload(self) -> bytes:
        return self.value(self.schema.root, 6)

    def value(self, avro_type: AvroType, depth: int) -> bytes:
        kind = self.schema.resolve(avro_type)
        match kind:
            case Primitive() | Fixed() | Enum():
                return self.leaf(kind)
            case Record():
                return b"".join(self.value(field.type, depth - 1) for field in kind.fields)
            case Array():
                return self.blocks(lambda: self.value(kind.items, depth - 1), depth)
            case Map():
                return self.blocks(lambda: self.text() + self.value(kind.values, depth - 1), depth)
            case Union():
                return self.union(kind, depth)

    def leaf(self, kind: Primitive | Fixed | Enum) -> bytes:
        if isinstance(kind, Enum):
            return zigzag(self.rng.randrange(len(kind.symbols)))
        return self.fixed(kind) if isinstance(kind, Fixed) else self.primitive(kind)

    def union(self, union: Union, depth: int) -> bytes:
        index = self.rng.randrange(len(union.branches))
        if depth <= 0:
            index = next((i for i, b in enumerate(union.branches) if b == Primitive("null")), index)
        return zigzag(index) + self.value(union.branches[index], depth)

    def blocks(self, item: Any, depth: int) -> bytes:
        out = b""
        while depth > 0 and self.rng.random() < 0.6:
            items = [item() for _ in range(self.rng.randint(1, 3))]
            body = b"".join(items)
            sized = self.rng.random() < 0.5
            out += (zigzag(-len(items)) + zigzag(len(body)) if sized else zigzag(len(items))) + body
        return out + b"\0"

    def primitive(self, kind: Primitive) -> bytes:
        logical = kind.logical.name if kind.logical else ""
        makers: dict[str, Callable[[], bytes]] = {
            "null": bytes,
            "boolean": lambda: bytes([self.rng.randrange(2)]),
            "int": lambda: zigzag(self.rng.randrange(86_400_000) if logical == "time-millis" else self.number(31)),
            "long": lambda: zigzag(self.long(logical)),
            "float": lambda: struct.pack("<f", self.rng.choice([0.0, -1.5, 3.25, float("inf")])),
            "double": lambda: struct.pack("<d", self.rng.choice([0.0, -1.5, 1e300, float("-inf")])),
            "bytes": lambda: self.sized(self.rng.randbytes(self.rng.randrange(5))),
            "string": self.text,
        }
        if kind.name == "bytes" and kind.logical is not None:
            return self.sized(self.decimal_bytes(kind.logical.precision))
        return makers[kind.name]()

    def fixed(self, kind: Fixed) -> bytes:
        if kind.logical is not None and kind.logical.name == "decimal":
            return self.decimal(kind.logical.precision).to_bytes(kind.size, "big", signed=True)
        return self.rng.randbytes(kind.size)

    def decimal(self, precision: int) -> int:
        return self.rng.randrange(-(10**precision) + 1, 10**precision)

    def decimal_bytes(self, precision: int) -> bytes:
        number = self.decimal(precision)
        size = self.rng.choice([(number.bit_length() + 8) // 8, 20])
        return number.to_bytes(size, "big", signed=True)

    def long(self, logical: str) -> int:
        if logical == "time-micros":
            return self.rng.randrange(86_400_000_000)
        return self.number(53) if logical.endswith("-millis") else self.number(63)

    def number(self, bits: int) -> int:
        return self.rng.randrange(-(2 ** (width := self.rng.randint(1, bits))), 2**width)

    def text(self) -> bytes:
        return self.sized(self.rng.choice(["", "a", "b", "Straße", "🧊🧊", "x" * 70]).encode())

    def sized(self, body: bytes) -> bytes:
        return zigzag(len(body)) + body


def broken(payload: bytes, rng: random.Random) -> bytes:
    """The payload with one thing wrong, more often than not."""
    data = bytearray(payload)
    where = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            return bytes(data[:where])
        case 1:
            return bytes(data) + rng.randbytes(rng.randint(1, 3))
        case 2:
            data[where:where] = rng.choice([b"\xff" * 11, b"\xff\xff\xff\xff\x7f", b"\x80\x00", b"\x01", b"\x02"])
            return bytes(data)
        case 3:
            return rng.randbytes(rng.randrange(20))
        case _:
            for index in rng.sample(range(len(data)), min(len(data), rng.randint(1, 3))):
                data[index] = rng.choice([rng.randrange(256), 0, 1, 2, 0x7F, 0x80, 0xFF])
            return bytes(data)


def text_of(schema: Json) -> str:
    return json.dumps(schema)


def held(array: pa.Array) -> list[Any]:
    """What an array holds: times as integers (which need not fit Python's), NaN equal to itself, maps as pairs."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [held(array.field(index)) for index in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        pairs = list(zip(held(array.keys), held(array.items), strict=True))
        return _cut(array, pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _cut(array, held(array.values))
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in array.to_pylist()]
    return array.to_pylist()


def _cut(array: pa.Array, values: list[Any]) -> list[Any]:
    bounds = array.offsets.to_pylist()
    spans = zip(bounds, bounds[1:], array.is_valid().to_pylist(), strict=False)
    return [values[start:end] if valid else None for start, end, valid in spans]


def rows_of(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    return {name: held(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def record_of(*types: Json) -> Json:
    """A record with fields f0, f1, … of these types."""
    return {"type": "record", "name": "Row", "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


def parsed(schema: Json) -> AvroSchema:
    return parse_schema(text_of(schema))


REPEATABLE = settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck))
"""The same examples on every run, so that a failing test fails until the defect is fixed."""
