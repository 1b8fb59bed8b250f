"""Each row of the verdicts: a schema, bytes that google.protobuf writes, and the column's type and values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from printed_columns import assert_printed
from protobuf_samples import message, payload, proto3, rows, text_of

from frazil.formats.native import Engine
from frazil.formats.protobuf.mapping import map_schema
from frazil.formats.protobuf.open import open_decoder
from frazil.formats.protobuf.schema import parse_schema
from frazil.formats.protobuf.verdicts import REFUSED, VERDICTS, Verdict
from frazil.model.errors import IncompatibleSchemaError, MissingToolError
from frazil.records import binary

PRESENT = {"present": True}
DECIMAL = '[(confluent.field_meta) = {params: [{key: "precision", value: "5"}, {key: "scale", value: "2"}]}]'


@dataclass(frozen=True)
class Golden:
    """`fields` are set in the message; `columns` are types and values by name, `absent` the values without fields."""

    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    absent: Mapping[str, Any] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    syntax: str = "proto3"
    refused: str = ""


GOLDEN: dict[str, Golden] = {
    "int32, sint32, sfixed32": Golden(
        "int32 a = 1; sint32 b = 2; sfixed32 c = 3;",
        {"a": -1, "b": -(2**31), "c": 2**31 - 1},
        {"a": ("int", -1), "b": ("int", -(2**31)), "c": ("int", 2**31 - 1)},
        {"a": 0, "b": 0, "c": 0},
    ),
    "uint32, fixed32": Golden(
        "uint32 a = 1; fixed32 b = 2;",
        {"a": 2**32 - 1, "b": 2**32 - 1},
        {"a": ("long", 2**32 - 1), "b": ("long", 2**32 - 1)},
    ),
    "int64, sint64, sfixed64": Golden(
        "int64 a = 1; sint64 b = 2; sfixed64 c = 3;",
        {"a": -(2**63), "b": -(2**63), "c": 2**63 - 1},
        {"a": ("long", -(2**63)), "b": ("long", -(2**63)), "c": ("long", 2**63 - 1)},
    ),
    "uint64, fixed64": Golden(
        "uint64 a = 1; fixed64 b = 2;",
        {"a": 2**64 - 1, "b": 2**63},
        {"a": ("decimal(20, 0)", Decimal(2**64 - 1)), "b": ("decimal(20, 0)", Decimal(2**63))},
        {"a": Decimal(0)},
    ),
    "float, double": Golden(
        "float a = 1; double b = 2;",
        {"a": 0.5, "b": -1e300},
        {"a": ("float", 0.5), "b": ("double", -1e300)},
        {"a": 0.0},
    ),
    "bool": Golden("bool a = 1;", {"a": True}, {"a": ("boolean", True)}, {"a": False}),
    "string": Golden("string a = 1;", {"a": "ü\0"}, {"a": ("string", "ü\0")}, {"a": ""}),
    "bytes": Golden("bytes a = 1;", {"a": b"\xff\0"}, {"a": ("binary", b"\xff\0")}, {"a": b""}),
    "enum": Golden(
        "E a = 1; E b = 2; repeated E c = 3;"
        " --- enum E { option allow_alias = true; ZERO = 0; ONE = 1; UNO = 1; N = -1; }",
        {"a": 1, "b": 70, "c": [-1, -2]},
        {"a": ("string", "ONE"), "b": ("string", "70"), "c": ("list<string>", ["N", "-2"])},
        {"a": "ZERO"},
    ),
    "message": Golden(
        "M a = 1; M b = 2; message M { int32 n = 1; }",
        {"a": {"n": 5}},
        {"a": ("struct<n: int>", {"n": 5}), "b": ("struct<n: int>", None)},
    ),
    "message without fields": Golden(
        "M a = 1; google.protobuf.Empty b = 2; repeated M c = 3; message M {}",
        {"a": {}, "c": [{}]},
        {
            "a": ("struct<present: boolean>", PRESENT),
            "b": ("struct<present: boolean>", None),
            "c": ("list<struct<present: boolean>>", [PRESENT]),
        },
        {"a": None},
        ("google/protobuf/empty.proto",),
    ),
    "repeated": Golden(
        "repeated int32 a = 1; repeated string b = 2; repeated M c = 3; repeated sint64 d = 4 [packed = false];"
        " message M { int32 n = 1; }",
        {"a": [1, -1], "b": ["x", ""], "c": [{"n": 1}, {}], "d": [-5, 5]},
        {
            "a": ("list<int>", [1, -1]),
            "b": ("list<string>", ["x", ""]),
            "c": ("list<struct<n: int>>", [{"n": 1}, {"n": 0}]),
            "d": ("list<long>", [-5, 5]),
        },
        {"a": [], "b": [], "c": []},
    ),
    "map": Golden(
        "map<string, int32> a = 1; map<int64, M> b = 2; map<bool, string> c = 3; map<uint64, bytes> d = 4;"
        " message M { int32 n = 1; }",
        {"a": {"x": 1}, "c": {True: "y"}, "d": {2**64 - 1: b"z"}},
        {
            "a": ("map<string, int>", {"x": 1}),
            "b": ("map<long, struct<n: int>>", []),
            "c": ("map<boolean, string>", [(True, "y")]),
            "d": ("map<decimal(20, 0), binary>", [(Decimal(2**64 - 1), b"z")]),
        },
        {"a": {}},
    ),
    "oneof": Golden(
        "int32 first = 1; oneof kind { string a = 2; int32 b = 3; M c = 4; } message M { int32 n = 1; }",
        {"b": 0},
        {
            "first": ("int", 0),
            "a": ("string", None),
            "b": ("int", 0),
            "c": ("struct<n: int>", None),
        },
        {"a": None, "b": None, "c": None},
    ),
    "scalar of proto3": Golden("int32 a = 1; string b = 2;", {}, {"a": ("int", 0), "b": ("string", "")}),
    "`optional` of proto3": Golden(
        "optional int32 a = 1; optional string b = 2;", {"b": ""}, {"a": ("int", None), "b": ("string", "")}
    ),
    "`optional` and `required` of proto2": Golden(
        "optional int32 a = 1 [default = 7]; required bool b = 2; optional E c = 3; enum E { ONE = 1; }",
        {"b": False},
        {"a": ("int", None), "b": ("boolean", False), "c": ("string", None)},
        {"b": None},
        syntax="proto2",
    ),
    "google.protobuf.Int32Value and the other wrappers": Golden(
        "".join(
            f" google.protobuf.{name}Value {name.lower()} = {number};"
            for number, name in enumerate(
                ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"), start=1
            )
        )
        + " repeated google.protobuf.Int32Value many = 20;",
        {"uint64": {"value": 2**64 - 1}, "int32": {}, "string": {"value": "x"}, "many": [{"value": 3}, {}]},
        {
            "double": ("double", None),
            "float": ("float", None),
            "int64": ("long", None),
            "uint64": ("decimal(20, 0)", Decimal(2**64 - 1)),
            "int32": ("int", 0),
            "uint32": ("long", None),
            "bool": ("boolean", None),
            "string": ("string", "x"),
            "bytes": ("binary", None),
            "many": ("list<int>", [3, 0]),
        },
        imports=("google/protobuf/wrappers.proto",),
    ),
    "google.protobuf.Timestamp": Golden(
        "google.protobuf.Timestamp a = 1; google.protobuf.Timestamp b = 2;",
        {"a": {"seconds": -1, "nanos": 999_999_999}},
        {
            "a": ("timestamptz", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)),
            "b": ("timestamptz", None),
        },
        imports=("google/protobuf/timestamp.proto",),
    ),
    "google.protobuf.Duration": Golden(
        "google.protobuf.Duration a = 1; google.protobuf.Duration b = 2;",
        {"a": {"seconds": -3, "nanos": -1_999}, "b": {"seconds": 315_576_000_000, "nanos": 999_999_000}},
        {"a": ("long", -3_000_001), "b": ("long", 315_576_000_000_999_999)},
        {"a": None},
        ("google/protobuf/duration.proto",),
    ),
    "google.type.Date": Golden(
        "google.type.Date a = 1; google.type.Date b = 2;",
        {"a": {"year": 2024, "month": 2, "day": 29}, "b": {"year": 9999, "month": 12, "day": 31}},
        {"a": ("date", dt.date(2024, 2, 29)), "b": ("date", dt.date(9999, 12, 31))},
        {"a": None},
        ("google/type/date.proto",),
    ),
    "google.type.TimeOfDay": Golden(
        "google.type.TimeOfDay a = 1; google.type.TimeOfDay b = 2;",
        {"a": {"hours": 23, "minutes": 59, "seconds": 59, "nanos": 999_999_999}, "b": {}},
        {"a": ("time", dt.time(23, 59, 59, 999_999)), "b": ("time", dt.time(0))},
        {"a": None},
        ("google/type/timeofday.proto",),
    ),
    "confluent.type.Decimal": Golden(
        f"confluent.type.Decimal a = 1 {DECIMAL}; confluent.type.Decimal b = 2 {DECIMAL};"
        f" repeated confluent.type.Decimal c = 3 {DECIMAL}; map<string, confluent.type.Decimal> d = 4 {DECIMAL};",
        {
            "a": {"value": b"\x04\xd2", "precision": 5, "scale": 2},
            "b": {"value": b"\xff"},
            "c": [{"value": b"\x04\xd8", "scale": 3}],
        },
        {
            "a": ("decimal(5, 2)", Decimal("12.34")),
            "b": ("decimal(5, 2)", Decimal("-1.00")),
            "c": ("list<decimal(5, 2)>", [Decimal("1.24")]),
            "d": ("map<string, decimal(5, 2)>", {}),
        },
        imports=("confluent/type/decimal.proto", "confluent/meta.proto"),
    ),
    "confluent.type.Decimal without a precision": Golden(
        "confluent.type.Decimal a = 1;",
        imports=("confluent/type/decimal.proto",),
        refused="a: a confluent.type.Decimal without a precision",
    ),
    "confluent.type.Variant": Golden(
        "confluent.type.Variant a = 1;",
        {"a": {"metadata": b"m", "value": b"\xff"}},
        {"a": ("struct<metadata: binary, value: binary>", {"metadata": b"m", "value": b"\xff"})},
        {"a": None},
        ("confluent/type/variant.proto",),
    ),
    "google.protobuf.Struct, Value, ListValue": Golden(
        "google.protobuf.Struct a = 1; google.protobuf.Value b = 2; google.protobuf.ListValue c = 3;",
        {"a": {"l": [True, None, {"x": 2}, "ü", 1.5]}, "b": None, "c": [1, "2"]},
        {
            "a": ("string", '{"l":[true,null,{"x":2},"ü",1.5]}'),
            "b": ("string", "null"),
            "c": ("string", '[1,"2"]'),
        },
        {"a": None, "c": None},
        ("google/protobuf/struct.proto",),
    ),
    "google.protobuf.Any": Golden(
        "google.protobuf.Any a = 1;",
        {"a": {"type_url": "x/t.Row", "value": b"\xff"}},
        {"a": ("string", '{"@type":"x/t.Row","value":"/w=="}')},
        {"a": None},
        ("google/protobuf/any.proto",),
    ),
    "a message inside itself": Golden(
        "int32 n = 1; Row next = 2; map<bool, bytes> m = 3;",
        {"next": {"n": 1, "next": {"n": 2, "next": {"n": 3, "next": {"m": {True: b"\xff"}}}}}},
        {
            "n": ("int", 0),
            "next": (
                "struct<n: int, next: struct<n: int, next: string, m: map<boolean, binary>>, m: map<boolean, binary>>",
                {
                    "n": 1,
                    "next": {"n": 2, "next": '{"n":3,"next":{"n":0,"m":{"true":"/w=="}},"m":{}}', "m": []},
                    "m": [],
                },
            ),
            "m": ("map<boolean, binary>", []),
        },
        {"next": None},
    ),
    "group": Golden("optional group G = 1 { optional int32 n = 1; }", syntax="proto2", refused="g: a group"),
    "extension ranges, extensions": Golden(
        "optional int32 a = 1; extensions 100 to 199; --- extend Row { optional int32 b = 100; }",
        {"a": 1},
        {"a": ("int", 1)},
        syntax="proto2",
    ),
}


def test_each_verdict_has_a_golden_value() -> None:
    assert list(GOLDEN) == [each.protobuf for each in VERDICTS]
    assert [name for name, golden in GOLDEN.items() if golden.refused] == [
        each.protobuf for each in VERDICTS if each.column == REFUSED
    ]


@pytest.mark.parametrize("verdict", VERDICTS, ids=[each.protobuf for each in VERDICTS])
def test_the_page_prints_the_columns_that_the_golden_values_have(verdict: Verdict) -> None:
    golden = GOLDEN[verdict.protobuf]
    if verdict.column == "none":
        return
    beside = [golden.columns[name][0] for name in ("n", "m") if "inside" in verdict.protobuf]
    assert_printed(verdict.column, (column for column, _ in golden.columns.values()), beside=beside)
    if verdict.column == "that of its type":
        assert ("null if absent" in verdict.more) is (None in {value for _, value in golden.columns.values()})


@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if not golden.refused])
def test_columns_and_values_are_as_the_verdict_says(name: str, engine: Engine) -> None:
    golden = GOLDEN[name]
    schema = parse_schema(text_of(golden.body, *golden.imports, syntax=golden.syntax))
    if engine == "native" and _is_json_text(name):
        with pytest.raises(MissingToolError):
            open_decoder(schema, engine)
        return

    (row,) = rows(schema, engine, payload(_filled(schema, golden.fields)))
    (without,) = rows(schema, engine, b"\0")

    mapped = map_schema(schema)
    assert {each.name: (str(each.type), row[each.name]) for each in mapped.columns} == golden.columns
    assert {each: without[each] for each in golden.absent} == golden.absent
    assert open_decoder(schema, engine).schema.equals(open_decoder(schema, engine).decode(binary([])).rows.schema)


def _is_json_text(name: str) -> bool:
    """Return whether the native decoder leaves the type to the fallback."""
    return any(word in name for word in ("Struct", "Any", "inside"))


def _filled(schema: Any, fields: Mapping[str, Any]) -> Any:
    """The message with these fields; what google.protobuf does not take in a constructor is set afterwards."""
    made = message(schema)
    for name, value in fields.items():
        kind = schema.message.fields_by_name[name].message_type
        if kind is not None and kind.full_name == "google.protobuf.Struct":
            getattr(made, name).update(value)
        elif kind is not None and kind.full_name == "google.protobuf.Value":
            getattr(made, name).null_value = 0
        elif kind is not None and kind.full_name == "google.protobuf.ListValue":
            getattr(made, name).extend(value)
        elif value == {}:
            getattr(made, name).SetInParent()
        else:
            made.MergeFrom(message(schema, **{name: value}))
    return made


@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if golden.refused])
def test_what_a_verdict_refuses_is_a_finding(name: str) -> None:
    golden = GOLDEN[name]
    schema = parse_schema(text_of(golden.body, *golden.imports, syntax=golden.syntax))

    (finding,) = map_schema(schema).findings

    assert str(finding).startswith(golden.refused)
    with pytest.raises(IncompatibleSchemaError):
        open_decoder(schema)


def test_times_that_lose_nanoseconds_are_counted_once(engine: Engine) -> None:
    at = "google.protobuf.Timestamp"
    body = f"{at} a = 1; repeated {at} b = 2; map<string, {at}> c = 3; oneof o {{ {at} d = 4; int32 e = 5; }}"
    schema = proto3(body, "google/protobuf/timestamp.proto")
    lossy, exact = (GetMessageClass(schema.find(at))(nanos=nanos) for nanos in (1, 1000))
    entry = message(schema, c={"x": lossy}).SerializeToString()
    overwritten = message(schema, d=lossy).SerializeToString() + message(schema, e=1).SerializeToString()
    given = [payload(message(schema, a=lossy, b=[lossy, exact])), b"\0" + entry + entry, b"\0" + overwritten]

    counts = [open_decoder(schema, engine).decode(binary([each])).truncated_nanos for each in given]

    assert counts == [2, 1, 0]
