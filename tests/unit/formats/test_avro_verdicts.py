"""Each row of the Avro verdicts: a type, a value as fastavro writes it, and the column's type and value."""

from __future__ import annotations

import datetime as dt
import json
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest
from printed_columns import assert_printed

from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.formats.avro.verdicts import VERDICTS, Verdict
from frazil.formats.native import Engine, native_available
from frazil.model.errors import MissingToolError
from frazil.records import binary


@dataclass(frozen=True)
class Golden:
    """Fields by name with their Avro type, the value written, and the column's type and value."""

    fields: dict[str, tuple[Any, Any, str, Any]] = field(default_factory=dict)
    refused: str = ""
    without: tuple[str, ...] = ()


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"F{size}", "size": size, **more}


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def same(name: str, value: Any, column: str = "") -> tuple[Any, Any, str, Any]:
    return name, value, column or name, value


UTC, MICROS = dt.UTC, 1_700_000_000_123_456
AT = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
AT_MILLIS = AT.replace(microsecond=123_000)
ENTRY = record("MapEntry", key="int", value="string")
NODE = record("Node", v="int", next=["null", "Node"])
DURATION = struct.pack("<III", 1, 2, 3)

GOLDEN: dict[str, Golden] = {
    "boolean, int, long, float, double, string": Golden(
        {
            "a": same("boolean", True),
            "b": same("int", -(2**31)),
            "c": same("long", 2**63 - 1),
            "d": same("float", 0.5),
            "e": same("double", 0.1),
            "f": same("string", "東京"),
        }
    ),
    "int with `connect.type` int8 or int16": Golden({"a": ({"type": "int", "connect.type": "int8"}, 7, "int", 7)}),
    "bytes": Golden({"a": ({"type": "bytes", "flink.maxLength": 2}, b"\x00\xff", "binary", b"\x00\xff")}),
    "fixed(n)": Golden({"a": (fixed(2), b"ab", "fixed(2)", b"ab")}),
    "decimal on bytes or fixed": Golden(
        {
            "a": (logical("bytes", "decimal", precision=9, scale=2), b"\xff", "decimal(9, 2)", Decimal("-0.01")),
            "b": (fixed(4, logicalType="decimal", precision=9), b"\0\0\0\x07", "decimal(9, 0)", Decimal(7)),
        }
    ),
    "decimal without a precision, or with a scale above it": Golden(
        {
            "a": (logical("bytes", "decimal"), b"\x07", "binary", b"\x07"),
            "b": (fixed(2, logicalType="decimal", precision=1, scale=2), b"ab", "fixed(2)", b"ab"),
        }
    ),
    "decimal with a precision above 38": Golden(
        {"a": (logical("bytes", "decimal", precision=39), b"", "", None)}, refused="39"
    ),
    "uuid on string": Golden({"a": (logical("string", "uuid"), "none", "string", "none")}),
    "uuid on fixed(16)": Golden(
        {"a": (fixed(16, logicalType="uuid"), bytes(range(16)), "uuid", UUID(bytes=bytes(range(16))))}
    ),
    "date": Golden({"a": (logical("int", "date"), -719_162, "date", dt.date(1, 1, 1))}),
    "time-millis, time-micros": Golden(
        {
            "a": (logical("int", "time-millis"), 1, "time", dt.time(0, 0, 0, 1000)),
            "b": (logical("long", "time-micros"), 1, "time", dt.time(0, 0, 0, 1)),
        }
    ),
    "timestamp-millis, timestamp-micros": Golden(
        {
            "a": (logical("long", "timestamp-millis"), MICROS // 1000, "timestamptz", AT_MILLIS.replace(tzinfo=UTC)),
            "b": (logical("long", "timestamp-micros"), MICROS, "timestamptz", AT.replace(tzinfo=UTC)),
        }
    ),
    "timestamp-nanos": Golden(
        {"a": (logical("long", "timestamp-nanos"), MICROS * 1000 + 789, "timestamptz", AT.replace(tzinfo=UTC))}
    ),
    "local-timestamp-millis, local-timestamp-micros": Golden(
        {
            "a": (logical("long", "local-timestamp-millis"), MICROS // 1000, "timestamp", AT_MILLIS),
            "b": (logical("long", "local-timestamp-micros"), MICROS, "timestamp", AT),
        }
    ),
    "local-timestamp-nanos": Golden(
        {"a": (logical("long", "local-timestamp-nanos"), MICROS * 1000 + 789, "timestamp", AT)}
    ),
    "duration": Golden({"a": (fixed(12, logicalType="duration"), DURATION, "fixed(12)", DURATION)}),
    "any other logical type": Golden({"a": (logical("int", "fortnight"), 3, "int", 3)}),
    "enum": Golden({"a": ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "string", "Y")}),
    "array": Golden({"a": ({"type": "array", "items": "int"}, [1, 2], "list<int>", [1, 2])}),
    "map": Golden({"a": ({"type": "map", "values": "int"}, {"k": 1}, "map<string, int>", [("k", 1)])}),
    "array of records `MapEntry` of Kafka Connect, with a key and a value": Golden(
        {
            "a": (
                {"type": "array", "items": ENTRY},
                [{"key": 1, "value": "x"}, {"key": 1, "value": "y"}],
                "list<struct<key: int, value: string>>",
                [{"key": 1, "value": "x"}, {"key": 1, "value": "y"}],
            )
        }
    ),
    "record": Golden({"a": (record("R", x="int"), {"x": 1}, "struct<x: int>", {"x": 1})}),
    "record without fields, null alone": Golden(
        {
            "a": (record("Nothing"), {}, "", None),
            "b": ("null", None, "", None),
            "c": ({"type": "array", "items": "Nothing"}, [{}], "list<struct<present: boolean>>", [{"present": True}]),
        },
        without=("a", "b"),
    ),
    "`confluent.type.Variant`": Golden(
        {
            "a": (
                record("confluent.type.Variant", metadata="bytes", value="bytes"),
                {"metadata": b"m", "value": b"v"},
                "struct<metadata: binary, value: binary>",
                {"metadata": b"m", "value": b"v"},
            )
        }
    ),
    "union of null and one type, in any order": Golden(
        {"a": (["null", "int"], None, "int", None), "b": (["int", "null"], 1, "int", 1)}
    ),
    "any other union": Golden(
        {
            "a": (["null", "int", "string"], "x", "struct<int: int, string: string>", {"int": None, "string": "x"}),
            "b": (
                [record("p.X", f="int"), record("q.X", g="int")],
                {"g": 2},
                "struct<p_X: struct<f: int>, q_X: struct<g: int>>",
                {"p_X": None, "q_X": {"g": 2}},
            ),
        }
    ),
    "a record inside itself": Golden(
        {
            "a": (
                NODE,
                {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": {"v": 4, "next": None}}}},
                "struct<v: int, next: struct<v: int, next: struct<v: int, next: string>>>",
                {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": '{"v":4,"next":null}'}}},
            )
        }
    ),
    "default of a field": Golden({"a": same("int", 0)}),
    "aliases of a field": Golden({"a": same("int", 5)}),
    "names that differ only in case": Golden({"a": same("int", 1), "A": same("int", 2)}, refused="differ only in case"),
    "any other type than a record at the top": Golden({"value": same("int", 5)}),
}
AT_THE_TOP = "any other type than a record at the top"
ATTRIBUTES = {"default of a field": {"default": 9}, "aliases of a field": {"aliases": ["old"]}}


def schema_of(name: str, golden: Golden) -> Any:
    if name == AT_THE_TOP:
        return golden.fields["value"][0]
    fields = [{"name": n, "type": given[0], **ATTRIBUTES.get(name, {})} for n, given in golden.fields.items()]
    return {"type": "record", "name": "Row", "fields": fields}


def without_logical_types(schema: Any) -> Any:
    """Let fastavro write the type under a logical type, so that a value is what is on the wire."""
    match schema:
        case dict():
            return {name: without_logical_types(each) for name, each in schema.items() if name != "logicalType"}
        case list():
            return [without_logical_types(each) for each in schema]
        case _:
            return schema


def written(name: str, golden: Golden) -> bytes:
    schema, out = without_logical_types(schema_of(name, golden)), BytesIO()
    row = {n: given[1] for n, given in golden.fields.items()}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row["value"] if name == AT_THE_TOP else row)
    return out.getvalue()


def test_every_verdict_has_a_golden_value() -> None:
    assert list(GOLDEN) == [each.avro for each in VERDICTS]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_type_becomes_the_column_of_its_verdict(name: str) -> None:
    golden = GOLDEN[name]
    mapped = map_schema(parse_schema(json.dumps(schema_of(name, golden))))

    if golden.refused:
        assert golden.refused in mapped.findings[0].problem
        return
    assert mapped.findings == ()
    expected = {n: given[2] for n, given in golden.fields.items() if n not in golden.without}
    assert {each.name: str(each.type) for each in mapped.columns} == expected


@pytest.mark.parametrize("verdict", VERDICTS, ids=[each.avro for each in VERDICTS])
def test_the_page_prints_the_columns_that_the_golden_values_have(verdict: Verdict) -> None:
    golden = GOLDEN[verdict.avro]
    if golden.refused:
        assert verdict.column == "refused"
        return
    found = {given[2] for name, given in golden.fields.items() if name not in golden.without and given[2]}
    if verdict.column == "the same":
        assert found == set(verdict.avro.split(", "))
    assert (verdict.column == "none") is bool(golden.without)
    assert_printed(verdict.more.rpartition(", ")[2] if golden.without else verdict.column, found)


@pytest.mark.parametrize("engine", ["native", "fallback"])
@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if not golden.refused])
def test_a_value_becomes_the_value_of_its_verdict(name: str, engine: Engine) -> None:
    golden, schema = GOLDEN[name], parse_schema(json.dumps(schema_of(name, GOLDEN[name])))
    try:
        decoder = open_decoder(schema, engine)
    except MissingToolError as missing:
        if not native_available():
            pytest.skip(missing.what)
        return

    decoded = decoder.decode(binary([written(name, golden)]))

    expected = {n: given[3] for n, given in golden.fields.items() if n not in golden.without}
    assert decoded.rejects == ()
    assert decoded.rows.to_pylist() == [expected]
