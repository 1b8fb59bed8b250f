"""Records of Kafka Connect's JSON converter: sorted by the schema in them, and the schema's shape."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.formats.connect import ConnectType
from frazil.formats.connect_json import records as records_module
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import read_schema
from frazil.formats.json_values.open import open_decoder
from frazil.formats.json_values.shape import columns_of
from frazil.model.errors import IncompatibleSchemaError
from frazil.records import binary

A = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "a"}]}
B = {"type": "struct", "fields": [{"type": "string", "optional": True, "field": "b", "default": ',"payload":{'}]}


def record(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_records_are_sorted_by_schema() -> None:
    given = [record(A, {"a": 1}), record(B, {"b": "x"}), b"{}", record(A, {"a": 2}), b'{"schema":{},"payload"', None]
    records = binary(given)

    found = [(each.schema, each.indexes.tolist(), each.payloads(records).to_pylist()) for each in by_schema(records)]

    assert found == [
        (dumped(A), [0, 3], [b'{"a":1}', b'{"a":2}']),
        (dumped(B), [1], [b'{"b":"x"}']),
        (None, [2, 4], [b"{}", b'{"schema":{},"payload"']),
    ]


def test_records_of_many_schemas_are_sorted_by_schema() -> None:
    schemas = [{**B, "version": number} for number in range(50)]
    given = [record(schema, {"b": str(number)}) for number, schema in enumerate([*schemas, *reversed(schemas)])]
    records = binary([given[0], b"{}", None, *given[1:], b'{"schema":{},"payload"'])

    found = [(each.schema, each.payloads(records).to_pylist()) for each in by_schema(records)]

    both = [[dumped({"b": str(number)}).encode() for number in (first, 99 - first)] for first in range(50)]
    assert found == [
        *((dumped(schema), payloads) for schema, payloads in zip(schemas, both, strict=True)),
        (None, [b"{}", b'{"schema":{},"payload"']),
    ]


def test_a_schema_per_record_is_searched_in_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[int]()

    def counted(values: pa.LargeBinaryArray, pattern: bytes) -> pa.BooleanArray:
        searched.append(len(values))
        return pc.starts_with(values, pattern=pattern)

    monkeypatch.setattr(records_module, "pc", SimpleNamespace(**{**vars(pc), "starts_with": counted}))
    given = binary([record({**A, "version": number}, {"a": number}) for number in range(200)])

    assert len(list(by_schema(given))) == 200
    assert sum(searched) <= 3 * len(given)


@pytest.mark.parametrize(
    "given", [b"", b"{", b'{"payload":{},"schema":{}}', b'{"schema":{', b'{"schema":{},"x":1}', b'{"schema":"\xff"}']
)
def test_a_record_of_another_form_has_no_schema(given: bytes) -> None:
    (only,) = by_schema(binary([given]))

    assert (only.schema, only.payloads(binary([given])).to_pylist()) == (None, [given])


def test_no_records_have_no_schemas() -> None:
    assert list(by_schema(binary([]))) == []


def dumped(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


def fields(*given: dict[str, Any]) -> str:
    return dumped({"type": "struct", "fields": list(given), "name": "s.t.Envelope"})


EVERY_TYPE = fields(
    *({"type": each, "field": each} for each in ("boolean", "int8", "int16", "int32", "int64", "float", "double")),
    {"type": "string", "field": "string", "doc": "a text", "optional": False},
    {"type": "bytes", "field": "bytes"},
    {"type": "array", "items": {"type": "int32", "name": "n"}, "field": "array"},
    {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}, "field": "map"},
    {"type": "map", "keys": {"type": "int16"}, "values": {"type": "int64"}, "field": "pairs"},
    {
        "type": "bytes",
        "field": "decimal",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    },
)


def test_each_type_of_kafka_connect_has_a_column() -> None:
    embedded = read_schema(EVERY_TYPE)

    assert {each.name: str(each.type) for each in columns_of(embedded.row)} == {
        "boolean": "boolean",
        "int8": "int",
        "int16": "int",
        "int32": "int",
        "int64": "long",
        "float": "float",
        "double": "double",
        "string": "string",
        "bytes": "binary",
        "array": "list<int>",
        "map": "map<string, long>",
        "pairs": "string",
        "decimal": "decimal(38, 2)",
    }
    assert embedded.name == "s.t.Envelope"
    assert embedded.types == {
        "array[]": ConnectType("n"),
        "decimal": ConnectType("org.apache.kafka.connect.data.Decimal", (("scale", "2"),)),
    }
    assert [each.name for each in columns_of(embedded.row) if each.required] == ["string"]


def test_values_of_each_type_are_decoded(engine: Any) -> None:
    payload = {
        "boolean": True, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float": 0.5, "double": 1.5, "string": "x",
        "bytes": "AQI=", "array": [1], "map": {"k": 1}, "pairs": [[1, 2]], "decimal": "BNI=",
    }  # fmt: skip

    decoded = open_decoder(read_schema(EVERY_TYPE).row, engine).decode(binary([json.dumps(payload).encode()]))

    assert [str(each) for each in decoded.rejects] == []
    (row,) = decoded.rows.to_pylist()
    assert (row["bytes"], row["pairs"], str(row["decimal"]), row["map"]) == (b"\1\2", "[[1,2]]", "12.34", [("k", 1)])


BAD = [
    ("[", "not JSON"),
    ("[]", "not a schema"),
    ('{"type":"int32"}', "a change event is a struct"),
    (fields(), "a struct without fields"),
    (fields({"field": "a"}), "a: a type is missing"),
    (fields({"field": "a", "type": "int128"}), "a: unknown type 'int128'"),
    (fields({"field": "half of a pair \ud800", "type": "int8"}), "surrogates not allowed"),
    (fields({"field": "a", "type": "int8"}, {"field": "A", "type": "int8"}), "a and A"),
    (
        fields(
            {
                "field": "a",
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "64"},
            }
        ),
        "a: a decimal of 64 digits, 2 of them after the point",
    ),
    ('{"type":"array","items":' * 5000 + "1" + "}" * 5000, "not"),
    ('{"type":"array","items":' * 70 + '{"type":"int8"}' + "}" * 70, "not a schema of at most 64 levels"),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_a_schema_that_cannot_become_columns_is_refused(text: str, problem: str) -> None:
    with pytest.raises(IncompatibleSchemaError) as refused:
        read_schema(text)

    assert problem in str(refused.value)
