"""Each named type of Debezium and Kafka Connect: its column and its value, from each format with schemas."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder as open_avro
from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import read_schema
from frazil.formats.debezium.columns import LogicalColumns, LogicalRows
from frazil.formats.debezium.logical_types import ROWS
from frazil.formats.json_schema.schema import expand
from frazil.formats.json_values.open import open_decoder as open_json
from frazil.formats.json_values.shape import columns_of
from frazil.model.dead_letter import Reason
from frazil.records import binary
from tests.fakes.connect_samples import (
    BYTES,
    DOUBLE,
    INT,
    LONG,
    STRING,
    Schema,
    array,
    avro_payload,
    avro_schema,
    json_record,
    json_schema,
    json_schema_payload,
    named,
    optional,
    struct,
)


@dataclass(frozen=True)
class Golden:
    """A Connect schema without its name, the value written, and the column's type and value."""

    schema: dict[str, Any]
    written: Any
    column: str
    value: Any
    parameters: dict[str, str] = field(default_factory=dict)


AT = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456)
AT_MILLIS = AT.replace(microsecond=123_000)
MILLIS, MICROS, NANOS = 1_700_000_000_123, 1_700_000_000_123_456, 1_700_000_000_123_456_789
TIME, TIME_MILLIS = dt.time(22, 13, 20, 123_456), dt.time(22, 13, 20, 123_000)
IN_A_DAY = 80_000_123_456_789
A_UUID = "6c84fb90-12c4-11e1-840d-7b25c5ee775a"
WKB = b"\x01\x01\x00\x00\x00" + bytes(16)
GEOMETRY = struct(wkb=BYTES, srid=INT)


GOLDEN: dict[str, Golden] = {
    "io.debezium.time.Date": Golden(INT, 19_675, "date", dt.date(2023, 11, 14)),
    "io.debezium.time.Time": Golden(INT, IN_A_DAY // 10**6, "time", TIME_MILLIS),
    "io.debezium.time.MicroTime": Golden(LONG, IN_A_DAY // 1000, "time", TIME),
    "io.debezium.time.NanoTime": Golden(LONG, IN_A_DAY, "time", TIME),
    "io.debezium.time.Timestamp": Golden(LONG, MILLIS, "timestamp", AT_MILLIS),
    "io.debezium.time.MicroTimestamp": Golden(LONG, MICROS, "timestamp", AT),
    "io.debezium.time.NanoTimestamp": Golden(LONG, NANOS, "timestamp", AT),
    "io.debezium.time.ZonedTimestamp": Golden(
        STRING, "2023-11-15T00:13:20.123456+02:00", "timestamptz", AT.replace(tzinfo=dt.UTC)
    ),
    "io.debezium.time.ZonedTime": Golden(STRING, "22:13:20+02:00", "string", "22:13:20+02:00"),
    "io.debezium.time.IsoDate": Golden(STRING, "2023-11-14Z", "date", dt.date(2023, 11, 14)),
    "io.debezium.time.IsoTime": Golden(STRING, "22:13:20.123456Z", "time", TIME),
    "io.debezium.time.IsoTimestamp": Golden(STRING, "2023-11-14T22:13:20.123456Z", "timestamp", AT),
    "io.debezium.time.Year": Golden(INT, 2023, "int", 2023),
    "io.debezium.time.Interval": Golden(STRING, "P1Y2M3DT4H5M6.78S", "string", "P1Y2M3DT4H5M6.78S"),
    "io.debezium.time.MicroDuration": Golden(LONG, 1_500_000, "long", 1_500_000),
    "io.debezium.time.NanoDuration": Golden(LONG, 1_500_000_000, "long", 1_500_000_000),
    "org.apache.kafka.connect.data.Decimal": Golden(
        BYTES,
        Decimal("-12.34"),
        "decimal(10, 2)",
        Decimal("-12.34"),
        {"scale": "2", "connect.decimal.precision": "10"},
    ),
    "org.apache.kafka.connect.data.Date": Golden(
        INT, dt.date(2023, 11, 14), "date", dt.date(2023, 11, 14)
    ),
    "org.apache.kafka.connect.data.Time": Golden(INT, TIME_MILLIS, "time", TIME_MILLIS),
    "org.apache.kafka.connect.data.Timestamp": Golden(
        LONG, AT_MILLIS.replace(tzinfo=dt.UTC), "timestamp", AT_MILLIS
    ),
    "io.debezium.data.Json": Golden(STRING, '{"a": [1, 2]}', "string", '{"a": [1, 2]}'),
    "io.debezium.data.Xml": Golden(STRING, "<a/>", "string", "<a/>"),
    "io.debezium.data.Enum": Golden(STRING, "pending", "string", "pending", {"allowed": "pending,done"}),
    "io.debezium.data.EnumSet": Golden(STRING, "a,c", "string", "a,c", {"allowed": "a,b,c"}),
    "io.debezium.data.Uuid": Golden(STRING, A_UUID, "uuid", UUID(A_UUID)),
    "io.debezium.data.Bits": Golden(BYTES, b"\x05\x80", "binary", b"\x05\x80", {"length": "16"}),
    "io.debezium.data.VariableScaleDecimal": Golden(
        struct(scale=INT, value=BYTES),
        {"scale": 3, "value": b"\xfe\xdc"},
        "string",
        "-0.292",
    ),
    "io.debezium.data.Ltree": Golden(STRING, "Top.Science", "string", "Top.Science"),
    "io.debezium.data.Tsvector": Golden(STRING, "'a':1", "string", "'a':1"),
    "io.debezium.data.geometry.Point": Golden(
        struct(x=DOUBLE, y=DOUBLE, wkb=BYTES, srid=INT),
        {"x": 1.5, "y": -2.0, "wkb": WKB, "srid": 4326},
        "struct<x: double, y: double, wkb: binary, srid: int>",
        {"x": 1.5, "y": -2.0, "wkb": WKB, "srid": 4326},
    ),
    "io.debezium.data.geometry.Geometry": Golden(
        GEOMETRY, {"wkb": WKB, "srid": 1}, "struct<wkb: binary, srid: int>", {"wkb": WKB, "srid": 1},
    ),
    "io.debezium.data.geometry.Geography": Golden(
        GEOMETRY, {"wkb": WKB, "srid": 1}, "struct<wkb: binary, srid: int>", {"wkb": WKB, "srid": 1},
    ),
    "io.debezium.data.geometry.Circle": Golden(
        struct(center=named("io.debezium.data.geometry.Point", struct(x=DOUBLE, y=DOUBLE)), radius=DOUBLE),
        {"center": {"x": 1.0, "y": 2.0}, "radius": 3.0},
        "struct<center: struct<x: double, y: double>, radius: double>",
        {"center": {"x": 1.0, "y": 2.0}, "radius": 3.0},
    ),
    "io.debezium.data.geometry.Line": Golden(
        struct(a=DOUBLE, b=DOUBLE, c=DOUBLE),
        {"a": 1.0, "b": 2.0, "c": 3.0},
        "struct<a: double, b: double, c: double>",
        {"a": 1.0, "b": 2.0, "c": 3.0},
    ),
    "io.debezium.data.FloatVector": Golden(
        array({"type": "float"}), [1.5, 2.0], "list<float>", [1.5, 2.0]
    ),
    "io.debezium.data.DoubleVector": Golden(array(DOUBLE), [1.5], "list<double>", [1.5]),
    "io.debezium.data.SparseDoubleVector": Golden(
        struct(dimensions=INT, vector=array(DOUBLE)),
        {"dimensions": 3, "vector": [1.0]},
        "struct<dimensions: int, vector: list<double>>",
        {"dimensions": 3, "vector": [1.0]},
    ),
}  # fmt: skip


def test_every_type_of_the_table_has_a_golden_value() -> None:
    assert list(GOLDEN) == [each.name for each in ROWS]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_named_type_in_avro_becomes_its_column(name: str) -> None:
    columns, converted = from_avro(name, [GOLDEN[name].written, None])

    assert described(columns) == GOLDEN[name].column
    assert values(converted) == [GOLDEN[name].value, None]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_named_type_in_json_becomes_its_column(name: str) -> None:
    columns, converted = from_json(name, [GOLDEN[name].written, None])

    assert described(columns) == GOLDEN[name].column
    assert values(converted) == [GOLDEN[name].value, None]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_named_type_in_json_schema_becomes_its_column(name: str) -> None:
    columns, converted = from_json_schema(schema_of(name), [GOLDEN[name].written, None])

    assert described(columns) == GOLDEN[name].column
    assert values(converted) == [GOLDEN[name].value, None]


def test_elements_of_arrays_in_json_schema_are_converted() -> None:
    golden = GOLDEN["io.debezium.data.Uuid"]
    given = array(optional(named("io.debezium.data.Uuid", golden.schema)))

    columns, converted = from_json_schema(given, [[golden.written, None], None, []])

    assert (described(columns), values(converted)) == ("list<uuid>", [[golden.value, None], None, []])


@pytest.mark.parametrize(
    ("word", "column", "value"),
    [
        ("int8", "int", -1),
        ("int16", "int", -32768),
        ("int32", "int", 2**31 - 1),
        ("int64", "long", 2**63 - 1),
        ("float", "float", 0.5),
        ("double", "double", 0.1),
        ("boolean", "boolean", True),
    ],
)
def test_types_without_a_name_are_the_same_in_every_format(word: str, column: str, value: Any) -> None:
    for decode in (decode_json, from_json_schema):
        columns, converted = decode({"type": word}, [value, None])

        assert (described(columns), values(converted)) == (column, [value, None])


@pytest.mark.parametrize("name", ["io.debezium.time.Date", "io.debezium.data.Uuid"])
def test_elements_of_arrays_are_converted(name: str) -> None:
    golden = GOLDEN[name]
    given = array(optional(named(name, golden.schema)))

    columns, converted = decode_json(given, [[golden.written, None], None, [], [golden.written]])

    assert described(columns) == f"list<{golden.column}>"
    assert values(converted) == [[golden.value, None], None, [], [golden.value]]


def test_a_type_under_another_one_than_usual_stays_as_it_is() -> None:
    columns, converted = decode_json(named("io.debezium.time.Date", STRING), ["2023-11-14"])

    assert (described(columns), values(converted)) == ("string", ["2023-11-14"])


def test_an_unknown_name_has_no_effect() -> None:
    columns, converted = decode_json(named("com.example.Celsius", INT), [21])

    assert (described(columns), values(converted)) == ("int", [21])


def test_json_text_is_marked_as_such() -> None:
    columns, _ = from_json("io.debezium.data.Json", ["{}"])

    assert columns.columns[0].is_json


BAD: list[tuple[str, Any, Reason]] = [
    ("io.debezium.time.Time", 86_400_000, Reason.OUT_OF_RANGE),
    ("io.debezium.time.MicroTime", -1, Reason.OUT_OF_RANGE),
    ("io.debezium.time.NanoTime", 86_400_000_000_000, Reason.OUT_OF_RANGE),
    ("io.debezium.time.Timestamp", 2**62, Reason.OUT_OF_RANGE),
    ("io.debezium.time.ZonedTimestamp", "2023-02-30T00:00:00Z", Reason.BAD_FORMAT),
    ("io.debezium.time.ZonedTimestamp", "2023-11-14 22:13:20", Reason.BAD_FORMAT),
    ("io.debezium.time.IsoDate", "2023-02-30Z", Reason.BAD_FORMAT),
    ("io.debezium.time.IsoTime", "24:00:00Z", Reason.BAD_FORMAT),
    ("io.debezium.time.IsoTimestamp", "noon", Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID[:-1], Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("-", "+"), Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("-", ":", 1), Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("6", "g"), Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("6", "-"), Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("-", "6"), Reason.BAD_FORMAT),
    ("io.debezium.data.Uuid", A_UUID.replace("6c", "\u00e9"), Reason.BAD_FORMAT),
    ("io.debezium.data.VariableScaleDecimal", {"scale": 2**31 - 1, "value": b"1"}, Reason.OUT_OF_RANGE),
]


@pytest.mark.parametrize(("name", "written", "reason"), BAD)
def test_a_value_that_its_type_does_not_have_is_a_reject(name: str, written: Any, reason: Reason) -> None:
    golden = GOLDEN[name]
    good = golden.written

    _, converted = from_json(name, [good, written, None, written, good])

    assert [(each.index, each.reason, each.path) for each in converted.rejects] == [
        (1, reason, "after"),
        (3, reason, "after"),
    ]
    assert values(converted) == [golden.value, None, golden.value]


def test_a_bad_element_rejects_its_row_only_once() -> None:
    given = array(named("io.debezium.data.Uuid", STRING))

    _, converted = decode_json(given, [[A_UUID], ["x", A_UUID, "y"], []])

    assert [(each.index, each.path) for each in converted.rejects] == [(1, "after[]")]
    assert values(converted) == [[UUID(A_UUID)], []]


@pytest.mark.parametrize(
    ("name", "written", "micros"),
    [
        ("io.debezium.time.MicroTimestamp", 9_223_372_036_825_200_000, 9_223_372_036_825_200_000),
        ("io.debezium.time.NanoTimestamp", 2**63 - 1, 9_223_372_036_825_200_000),
        ("io.debezium.time.NanoTimestamp", -(2**63), -9_223_372_036_832_400_000),
        ("io.debezium.time.ZonedTimestamp", "infinity", 9_223_372_036_825_200_000),
        ("io.debezium.time.ZonedTimestamp", "-infinity", -9_223_372_036_832_400_000),
    ],
)
def test_infinite_timestamps_of_postgres_are_the_same_in_every_type(name: str, written: Any, micros: int) -> None:
    _, converted = from_json(name, [written])

    assert converted.rows.column(0).view(pa.int64()).to_pylist() == [micros]
    assert converted.truncated_nanos == 0


@pytest.mark.parametrize(
    ("name", "written", "lost"),
    [
        ("io.debezium.time.NanoTimestamp", [NANOS, NANOS - 789], 1),
        ("io.debezium.time.NanoTime", [IN_A_DAY, 1000], 1),
        ("io.debezium.time.ZonedTimestamp", ["2023-11-14T22:13:20.1234567Z", "2023-11-14T22:13:20.123456000Z"], 1),
    ],
)
def test_digits_below_the_microsecond_are_counted(name: str, written: list[Any], lost: int) -> None:
    _, converted = from_json(name, written)

    assert converted.truncated_nanos == lost


@pytest.mark.parametrize(
    ("number", "scale", "wanted"),
    [
        (1, 38, "0." + "0" * 37 + "1"),
        (-(2**119), 0, str(-(2**119))),
        (2**119, 5, f"{str(2**119)[:-5]}.{str(2**119)[-5:]}"),
        (-(2**500), 0, str(-(2**500))),
        (12, -3, "12000"),
        (0, 2, "0.00"),
        (128, 0, "128"),
        (-128, 0, "-128"),
    ],
)
def test_decimals_of_any_scale_are_exact(number: int, scale: int, wanted: str) -> None:
    data = number.to_bytes((number.bit_length() + 8) // 8, signed=True)

    _, converted = from_json("io.debezium.data.VariableScaleDecimal", [{"scale": scale, "value": data}])

    assert values(converted) == [wanted]


def described(columns: LogicalColumns) -> str:
    (column,) = columns.columns
    return str(column.type)


def values(converted: LogicalRows) -> list[Any]:
    return converted.rows.column(0).to_pylist()


def schema_of(name: str) -> Schema:
    return named(name, GOLDEN[name].schema, **GOLDEN[name].parameters)


def from_json(name: str, written: list[Any]) -> tuple[LogicalColumns, LogicalRows]:
    return decode_json(schema_of(name), written)


def decode_json(given: Schema, written: list[Any]) -> tuple[LogicalColumns, LogicalRows]:
    schema = struct(after=optional(given))
    records = binary([json_record(schema, {"after": value}) for value in written])
    (same,) = by_schema(records)
    assert same.schema is not None
    embedded = read_schema(same.schema)
    columns = LogicalColumns(columns_of(embedded.row), embedded.types)
    decoded = open_json(embedded.row).decode(same.payloads(records))
    assert not decoded.rejects
    return columns, columns.convert(decoded.rows)


def from_json_schema(given: Schema, written: list[Any]) -> tuple[LogicalColumns, LogicalRows]:
    schema = struct(after=optional(given))
    expanded = expand(json_schema(schema))
    columns = LogicalColumns(columns_of(expanded.row)[:-1], expanded.types)
    payloads = binary([json_schema_payload(schema, {"after": value}) for value in written])
    decoded = open_json(expanded.row).decode(payloads)
    assert not (expanded.findings or expanded.notes or decoded.rejects)
    assert decoded.rows.column("_extra").null_count == len(written)
    return columns, columns.convert(decoded.rows.drop_columns(["_extra"]))


def from_avro(name: str, written: list[Any]) -> tuple[LogicalColumns, LogicalRows]:
    connect = struct(after=optional(schema_of(name)))
    schema = parse_schema(avro_schema(connect))
    columns = LogicalColumns(map_schema(schema).columns, connect_types(schema))
    payloads = binary([avro_payload(connect, {"after": value}) for value in written])
    decoded = open_avro(schema).decode(payloads)
    assert not decoded.rejects
    return columns, columns.convert(decoded.rows)
