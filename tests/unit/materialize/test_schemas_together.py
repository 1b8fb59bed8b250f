"""Payloads of several writer schemas that are decoded in one call become what they become schema by schema."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.formats import together
from frazil.formats.decoder import Decoder
from frazil.formats.framing import group_by_schema_id
from frazil.formats.limits import MOST_SLOTS
from frazil.formats.native import native_available
from frazil.formats.open import open_decoder
from frazil.formats.placement import place_by_name
from frazil.materialize.ingest import payloads
from frazil.materialize.ingest.payloads import CrowdedError, Part, decode_framed
from frazil.model.schemas import RegisteredSchema, SchemaType
from frazil.records import binary
from tests.sampling import examples

pytestmark = pytest.mark.skipif(not native_available(), reason="the native decoder is not built here")

Body = Callable[[random.Random, int], bytes]

FIELDS: list[Any] = [
    {"name": "flag", "type": "boolean"},
    {"name": "n", "type": "int"},
    {"name": "text", "type": ["null", "string"]},
    {"name": "data", "type": "bytes"},
    {"name": "single", "type": "float"},
    {"name": "double", "type": ["null", "double"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 3}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
    {"name": "items", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "map", "type": {"type": "map", "values": "string"}},
    {"name": "in", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}]},
]
OTHER_KIND = {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["C", "B", "A"]}}
AVRO: Mapping[int, Any] = {
    1: FIELDS,
    2: FIELDS[5:] + FIELDS[:5],
    3: [*FIELDS[2:8], {"name": "late", "type": ["null", "string"], "default": None}],
    4: [FIELDS[0], {"name": "n", "type": "long"}],  # another type than before
    5: FIELDS,
    6: [OTHER_KIND, {"name": "text", "type": "string"}],
}
PROTO = 'syntax = "proto3"; message M { %s }'
PROTOBUF = {
    1: PROTO % "string a = 1; optional int64 b = 2; repeated int32 c = 3; bool d = 4;",
    2: PROTO % "repeated int32 c = 3; string a = 1; double late = 5;",
    3: PROTO % "optional int64 b = 2; reserved 9; string a = 1;",
}
JSON = {
    n: json.dumps({"type": "object", "title": "M", "properties": {name: {"type": kind} for name, kind in fields}})
    for n, fields in {
        1: [("a", "string"), ("b", "integer"), ("d", "boolean")],
        2: [("b", "integer"), ("a", "string"), ("late", "number")],
        3: [("a", "string")],
    }.items()
}


def _record(fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _avro(rng: random.Random, schema_id: int) -> bytes:
    values = {
        "flag": rng.random() < 0.5,
        "n": rng.randrange(-9, 9),
        "text": rng.choice(["", "short", "ä" * 40]) if schema_id == 6 else rng.choice([None, "short", "ä" * 40]),
        "data": rng.randbytes(rng.choice([0, 5, 50])),
        "single": 0.5,
        "double": rng.choice([None, rng.random()]),
        "at": rng.randrange(10**9),
        "id": f"00112233-4455-6677-8899-aabbccddee{rng.randrange(256):02x}",
        "hash": rng.randbytes(3),
        "price": b"\x01",
        "kind": rng.choice("AB"),
        "items": [rng.choice([None, 7])] * rng.randrange(3),
        "map": {"k": "v"} if rng.random() < 0.5 else {},
        "in": rng.choice([None, {"x": 1}]),
        "late": rng.choice([None, "late"]),
    }
    return _encoded(_record(AVRO[schema_id]), values)


def _encoded(schema: str, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(schema), record)
    return out.getvalue()


@cache
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema, object_hook=_without_logical_type))


def _without_logical_type(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "logicalType"}


def _protobuf(rng: random.Random, _: int) -> bytes:
    fields = [b"\x0a\x02hi", b"\x10\x05", b"\x1a\x02\x01\x02", b"\x20\x01", b"\x29" + struct.pack("<d", rng.random())]
    return b"\0" + b"".join(rng.sample(fields, rng.randrange(len(fields))))


def _json(rng: random.Random, _: int) -> bytes:
    values = {"a": "text", "b": 5, "d": True, "late": 1.5, "undeclared": [1]}
    return json.dumps({name: values[name] for name in rng.sample(sorted(values), 2)}).encode()


FORMATS: Mapping[SchemaType, tuple[Mapping[int, str], Body]] = {
    "AVRO": ({number: _record(fields) for number, fields in AVRO.items()}, _avro),
    "PROTOBUF": (PROTOBUF, _protobuf),
    "JSON": (JSON, _json),
}


def _value(schemas: Mapping[int, str], body: Body, rng: random.Random) -> bytes | None:
    schema_id = rng.choice(list(schemas))
    data = body(rng, schema_id)
    whole = struct.pack(">bI", 0, schema_id) + data
    return rng.choices([whole, whole[:-1], whole + b"\xff", b"not framed", None], [20, 1, 1, 1, 1])[0]


def _decoded(kind: SchemaType, values: list[bytes | None]) -> Part:
    decoders = {n: open_decoder(RegisteredSchema(n, kind, text)) for n, text in FORMATS[kind][0].items()}
    fields: dict[str, pa.Field] = {}
    for decoder in reversed(decoders.values()):
        fields |= {field.name: field for field in decoder.schema if field.type != pa.int32()}
        fields |= {field.name: field for field in decoder.schema if field.name not in fields}
    return _onto(pa.schema(fields.values()), decoders, values)


def _onto(target: pa.Schema, decoders: Mapping[int, Decoder], values: Sequence[bytes | None]) -> Part:
    return decode_framed(
        binary(values),
        group_by_schema_id(binary(values)),
        cast("Any", SimpleNamespace(decoder=decoders.__getitem__)),
        target=target,
        place=lambda _, given: place_by_name(given, target, {}),
        nulls_are_rows=True,
    )


def _held(part: Part) -> object:
    accepted = None if part.accepted is None else part.accepted.tolist()
    rejects = sorted(part.rejects, key=lambda reject: reject.index)
    counts = (part.truncated_nanos, part.undeclared)
    return part.columns, accepted, rejects, part.writers, counts


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=examples(15, 500))
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60))
def test_rows_and_rejects_are_those_of_each_schema_alone(kind: SchemaType, seed: int, count: int) -> None:
    rng = random.Random(seed)
    values = [_value(*FORMATS[kind], rng) for _ in range(count)]

    found = _decoded(kind, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payloads, "divided", lambda writers, _: (None, writers))
        apart = _decoded(kind, values)
    for column in found.columns:
        column.validate(full=True)
    assert _held(found) == _held(apart)


@pytest.mark.parametrize("kind", FORMATS)
def test_schemas_are_decoded_in_one_call(kind: SchemaType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(writers: Any, target: pa.Schema) -> Any:
        taken, others = together.divided(writers, target)
        calls.append(0 if taken is None else len(taken.groups))
        return taken, others

    monkeypatch.setattr(payloads, "divided", counted)
    schemas, body = FORMATS[kind]
    _decoded(kind, [struct.pack(">bI", 0, n) + body(random.Random(0), n) for n in schemas])

    assert calls == [{"AVRO": 5, "PROTOBUF": 3, "JSON": 3}[kind]], "one schema of Avro has another type for `n`"


def test_schemas_that_decode_alike_share_a_decoder() -> None:
    texts = [json.dumps({"type": "record", "name": "R", "doc": doc, "fields": FIELDS[:3]}) for doc in ("one", "other")]

    one, other = (open_decoder(RegisteredSchema(n, "AVRO", text)) for n, text in enumerate(texts))

    assert cast("Any", one).core is cast("Any", other).core


def test_records_that_take_too_much_memory_together_are_decoded_in_parts() -> None:
    wide = {"type": "record", "name": "Wide", "fields": [{"name": f"f{n}", "type": "string"} for n in range(1000)]}
    items: Any = {"name": "items", "type": {"type": "array", "items": ["null", wide]}}
    schemas = [_record(fields) for fields in ([items, FIELDS[1]], [FIELDS[1], items])]
    large, small = ({"items": [None] * count, "n": 0} for count in (MOST_SLOTS // 2500, 0))

    with pytest.raises(CrowdedError) as crowded:
        _parts_of(schemas, [(0, large), (1, small), (1, large), (0, large), (1, small)])

    assert crowded.value.fitting == 3
    assert len(_parts_of(schemas, [(0, large), (1, small), (1, large)]).columns[0]) == 3


def _parts_of(schemas: list[str], records: list[tuple[int, Any]]) -> Part:
    values = [struct.pack(">bI", 0, number) + _encoded(schemas[number], record) for number, record in records]
    decoders = [open_decoder(RegisteredSchema(number, "AVRO", text)) for number, text in enumerate(schemas)]
    return _onto(decoders[0].schema, dict(enumerate(decoders)), values)
