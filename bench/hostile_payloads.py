"""Hostile values of each format, by seed: random, cut, changed, deep, with huge lengths, and compression bombs."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

import fastavro
from google.protobuf.message_factory import GetMessageClass

from frazil.formats.protobuf.schema import parse_schema as parse_protobuf
from frazil.model.change_events import ChangeEvents
from frazil.model.schemas import RegisteredSchema, SchemaId
from frazil.model.spec import EMBEDDED, ValueFormat, WireFormat

WHOLE, HEAVY = 200, 100
"""How many good values, and how many deep or long ones, hostile values are made of."""
HEAVY_EVERY = 100
"""One value in so many is a deep or long one, which takes up to 100 KB."""
DEPTHS = (1, 3, 10, 63, 64, 100, 101, 500, 501, 3_000)
HUGE = (2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)
UNKNOWN_IDS = 50
"""Ids that the registry does not know; a batch looks up 100 at most."""
BOMBS = (100_000, 2**20, 2**20 + 1, 2**22, 2**25 - 1, 2**25 + 1, 2**27)
"""The bytes that compression bombs inflate to."""

ROW: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "due", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "nothings", "type": {"type": "array", "items": "null"}},
        {"name": "empties", "type": {"type": "array", "items": {"type": "record", "name": "Void", "fields": []}}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "labels", "type": {"type": "map", "values": ["null", "double", "string"]}},
    ],
}
LINKED: dict[str, Any] = {**ROW, "fields": [*ROW["fields"], {"name": "next", "type": ["null", "Row"]}]}
"""Rows in rows are JSON text, which only the decoders in Python write."""
PROTO = """
    syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
    message Row {
      int64 id = 1; string name = 2; google.protobuf.Timestamp at = 3; optional double price = 4;
      repeated int64 numbers = 5; repeated Line lines = 6; map<string, Line> labels = 7;
      oneof how { bytes card = 9; bool cash = 10; } Kind kind = 11;
    }
    message Line { string sku = 1; fixed32 code = 2; }
    enum Kind { A = 0; B = 1; }
"""
LINKED_PROTO = PROTO.replace("Kind kind = 11;", "Kind kind = 11; Row next = 8; google.protobuf.Struct any = 12;")
JSON_ROW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
    },
}
FIELDS = {
    "id": "long",
    "name": "string",
    "at": "timestamptz",
    "price": "double",
    "lines": [{"sku": "string"}],
    "labels": {"*": "double"},
    "any": "json",
}


@dataclass(frozen=True, slots=True)
class HostileFormat:
    """A value format with its schema, good values without a frame, and values that are deep or claim to be long."""

    name: str
    word: ValueFormat
    schema: RegisteredSchema | None
    whole: Callable[[random.Random], bytes]
    heavy: Callable[[random.Random], bytes]
    wire_format: WireFormat = "confluent"
    is_native: bool = True
    """Whether a decoder in native code reads it, where it is built."""

    fields: Mapping[str, Any] | None = None
    """Those that the table spec declares."""

    events: ChangeEvents | None = None
    """How the values become changes, if they are change events."""

    @property
    def frame(self) -> bytes:
        """The bytes before the data."""
        if self.schema is None:
            return b""
        return embedded_frame(self.schema) if self.is_embedded else frame_of(self.schema.id, compressed=True)

    @property
    def trailer(self) -> bytes:
        """The bytes after the data."""
        return b"}" if self.is_embedded else b""

    @property
    def is_embedded(self) -> bool:
        """Return whether the schema is in each value."""
        return self.word == EMBEDDED


def embedded_frame(schema: RegisteredSchema) -> bytes:
    """Return the bytes before the data, as Kafka Connect's converter for JSON writes them."""
    return b'{"schema":' + schema.text.encode() + b',"payload":'


def frame_of(schema_id: SchemaId, *, compressed: bool = False) -> bytes:
    """Return the bytes before the data: of AWS Glue for a UUID, else of Confluent."""
    if isinstance(schema_id, UUID):
        return bytes([3, 5 if compressed else 0]) + schema_id.bytes
    return struct.pack(">bI", 0, schema_id)


def hostile_values(given: HostileFormat, count: int, seed: int) -> list[bytes | None]:
    """Return hostile values of a format, some good ones among them; the same for the same seed."""
    rng = random.Random(f"{given.name} {seed}")
    whole = [given.whole(rng) for _ in range(WHOLE)]
    heavy = [_enveloped(given, given.heavy(rng)) for _ in range(HEAVY)]
    heavy += _bombs(given, rng) if given.wire_format == "glue" else []
    return [rng.choice(heavy) if number % HEAVY_EVERY == 0 else _value(given, whole, rng) for number in range(count)]


def _value(given: HostileFormat, whole: Sequence[bytes], rng: random.Random) -> bytes | None:
    body, kind = rng.choice(whole), rng.randrange(10)
    if kind == 0:
        return None if rng.random() < 0.1 else _unframed(rng.randbytes(rng.randrange(60)))
    if kind == 1 and given.schema is not None and not given.is_embedded:
        return _of_unknown_schema(given.schema.id, body, rng)
    if kind == 2:
        return _enveloped(given, body)[: rng.randrange(30)]
    if kind == 3 and given.wire_format == "glue":
        return given.frame + changed(_packed(given, body), rng)
    return _enveloped(given, _hostile_body(kind, body, rng))


def _hostile_body(kind: int, body: bytes, rng: random.Random) -> bytes:
    match kind:
        case 4:
            return rng.randbytes(rng.randrange(60))
        case 5:
            return body[: rng.randrange(len(body) + 1)]
        case 6:
            return body
        case _:
            return changed(body, rng)


def _unframed(data: bytes) -> bytes:
    """Return bytes that name no schema: too many schemas end a batch early."""
    return b"\1" + data[1:] if data[:1] in (b"\0", b"\3") else data


def _of_unknown_schema(schema_id: SchemaId, body: bytes, rng: random.Random) -> bytes:
    number = 2_000_000_000 + rng.randrange(UNKNOWN_IDS)
    return frame_of(UUID(int=number) if isinstance(schema_id, UUID) else number) + body


def _enveloped(given: HostileFormat, body: bytes) -> bytes:
    return given.frame + _packed(given, body) + given.trailer


def _packed(given: HostileFormat, body: bytes) -> bytes:
    return zlib.compress(body, 1) if given.wire_format == "glue" else body


def _bombs(given: HostileFormat, rng: random.Random) -> list[bytes]:
    """Return values that inflate to much more: zeros, and a good value with zeros after it."""
    return [given.frame + _bomb(size, prefix) for size in BOMBS for prefix in (b"", given.whole(rng))]


@cache
def _bomb(size: int, prefix: bytes) -> bytes:
    return zlib.compress(prefix + bytes(size), 9)


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with one to three changes: bytes that are flipped, missing, repeated or new."""
    new = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        start, end = sorted((rng.randint(0, len(new)), rng.randint(0, len(new))))
        match rng.randrange(5):
            case 0 if start < len(new):
                new[start] ^= 1 << rng.randrange(8)
            case 1:
                del new[start:end]
            case 2:
                new[start:start] = new[start:end]
            case 3:
                new[start:start] = rng.choice(_INSERTED)
            case _:
                new[start:start] = rng.randbytes(rng.randint(1, 3))
    return bytes(new)


_INSERTED = (
    b"\xff" * 11, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x00", b'"', b"{", b"[", b"}", b"NaN", b"1e999", b"\\ud800",
             b'"id":1,', b"99999999999999999999", b"\xed\xa0\x80", b"\x00", b"\x0b", b"\x0c",
)  # fmt: skip


# --- Avro


def _avro_row(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    return {
        "id": rng.getrandbits(60),
        "name": rng.choice(("", "a", "Straße", "x" * 70)),
        "at": rng.getrandbits(50),
        "due": rng.choice((None, 20_000)),
        "price": rng.randbytes(rng.randint(1, 8)),
        "kind": rng.choice("AB"),
        "nothings": [None] * rng.randrange(3),
        "empties": [{}] * rng.randrange(3),
        "lines": [{"sku": "s"}] * rng.randrange(4),
        "labels": {"k": rng.choice((None, 1.5, "v"))} if rng.random() < 0.5 else {},
        "next": _avro_row(rng, depth - 1) if depth and rng.random() < 0.4 else None,
    }


@cache
def _avro_schema() -> Any:
    stored = json.loads(json.dumps(LINKED))
    price = next(each for each in stored["fields"] if each["name"] == "price")
    price["type"] = "bytes"  # fastavro would take decimals, not the bytes of one
    return fastavro.parse_schema(stored)


def avro(rng: random.Random) -> bytes:
    return _in_avro(_avro_row(rng, 0))[:-1]  # without the byte that says that `next` is null


def linked_avro(rng: random.Random) -> bytes:
    return _in_avro(_avro_row(rng))


def _in_avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _avro_schema(), row)
    return out.getvalue()


def heavy_avro(rng: random.Random) -> bytes:
    """Return a row in a row in a row …, or with items that take no byte, or with a length of many digits."""
    row = {**_avro_row(rng, 0), "name": "", "nothings": [], "empties": [], "lines": [], "labels": {}}
    without_next = _in_avro(row)[:-1]
    lists = b"\0\0\0\0"  # four ends of blocks
    before, huge = without_next.removesuffix(lists), zigzag(rng.choice((1, -1)) * rng.choice(HUGE))
    match rng.randrange(4):
        case 0:
            return (without_next + b"\2") * rng.choice(DEPTHS) + without_next + b"\0"
        case 1:
            return before + huge + rng.choice((b"", b"\0", huge)) + lists
        case 2:
            return before + b"\0" + huge + b"\0" + lists
        case _:
            return zigzag(1) + huge + without_next


def zigzag(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _varint(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


# --- Protobuf


@cache
def _row_class() -> Any:
    return GetMessageClass(parse_protobuf(LINKED_PROTO).message)


def protobuf(rng: random.Random) -> bytes:
    return b"\0" + _message(rng).SerializeToString()


def _message(rng: random.Random, depth: int = 2) -> Any:
    row = _row_class()(id=rng.getrandbits(60), name=rng.choice(("", "a", "Straße")), kind=rng.randrange(3))
    row.numbers.extend(rng.getrandbits(rng.randint(1, 62)) for _ in range(rng.randrange(5)))
    row.at.FromMicroseconds(rng.getrandbits(50))
    for _ in range(rng.randrange(3)):
        row.lines.add(sku="s", code=rng.getrandbits(32))
    row.labels["k"].sku = "v"
    row.any.update({"a": [1, {"b": None}], "c": "x"})
    if rng.random() < 0.5:
        row.card = rng.randbytes(5)
    if depth and rng.random() < 0.4:
        row.next.CopyFrom(_message(rng, depth - 1))
    return row


def heavy_protobuf(rng: random.Random) -> bytes:
    """Return messages, or groups, in each other, a length of many digits, or as many fields as fit."""
    depth, huge = rng.choice(DEPTHS), _varint(rng.choice((*HUGE, 2**64 - 1)))
    match rng.randrange(5):
        case 0:
            body = b""
            for _ in range(depth):
                body = b"\x42" + _varint(len(body)) + body
            return b"\0" + body
        case 1:
            return b"\0" + b"\xa3\x06" * depth + b"\xa4\x06" * rng.choice((depth, depth - 1))
        case 2:
            return b"\0" + rng.choice((b"\x12", b"\x2a", b"\x32", b"\x3a")) + huge + b"x" * 20
        case 3:
            return rng.choice((huge, b"\x06\0\0\0", b"\x02\x7f", b"\xff" * 12)) + b"\x08\x01"
        case _:
            return b"\0" + b"\x32\0" * 3_000


# --- JSON


def json_row(rng: random.Random) -> bytes:
    row = {
        "id": rng.getrandbits(60),
        "name": rng.choice(("", "a", "Straße \U0001f9ca", 'x"\\' * 9)),
        "at": rng.choice(("2026-02-28T23:30:00.123456789+01:00", "2024-02-29T00:00:00Z")),
        "price": rng.choice((0, -0.5, 1e300, 12.25)),
        "lines": [{"sku": "s", "n": 1}] * rng.randrange(4),
        "labels": {"k": 1.5},
        "any": rng.choice((None, [1, {"b": []}], "text")),
        "more": {"a": [True]},
    }
    return json.dumps({name: row[name] for name in row if rng.random() < 0.8}, ensure_ascii=rng.random() < 0.5).encode()


def heavy_json(rng: random.Random) -> bytes:
    """Return arrays or objects in each other, numbers of many digits, long texts, or as many keys as fit."""
    depth, name = rng.choice(DEPTHS), rng.choice((b"any", b"more", b"lines", b"id"))
    digits = b"9" * rng.choice((19, 20, 400, 5_000))
    bodies = (
        b"[" * depth + b"]" * rng.choice((depth, depth - 1, depth + 1)),
        b'{"a":' * depth + b"1" + b"}" * depth,
        digits,
        b"-" + digits + b"." + digits,
        b"1e" + digits,
        b'"' + b"\\u00e9" * 10_000 + rng.choice((b'"', b"", b"\\")),
        b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(5_000)) + b"}",
        b"[" + b"{}," * 20_000 + b"{}]",
    )
    return b'{"' + name + b'":' + rng.choice(bodies) + b"}"
