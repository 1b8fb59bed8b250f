"""Rows of every type as Avro payloads: natively and in Python, read back by fastavro."""

from __future__ import annotations

import io
import json
import re
import struct
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.errors import OutputSchemaError
from frazil.outputs import encode
from frazil.outputs.avro_schema import schema_of
from frazil.outputs.encode import AvroEncoder
from frazil.outputs.native import murmur2, native_encodes, partition_hashes

ID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
AT = datetime(2026, 3, 1, 12, 30, 0, 123456)
POINT = pa.struct([("x", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])
SAMPLES: dict[str, tuple[ColumnType, pa.DataType, list[Any]]] = {
    "flag": (Scalar("boolean"), pa.bool_(), [True, False, None]),
    "small": (Scalar("int"), pa.int32(), [-(2**31), 2**31 - 1, None]),
    "big": (Scalar("long"), pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "ratio": (Scalar("float"), pa.float32(), [1.5, None, -0.25]),
    "exact": (Scalar("double"), pa.float64(), [1e300, -0.1, None]),
    "text": (Scalar("string"), pa.large_string(), ["", "é", None]),
    "short": (Scalar("string"), pa.string(), ["a", None, "b" * 300]),
    "raw": (Scalar("binary"), pa.large_binary(), [b"", b"\x00\xff", None]),
    "day": (Scalar("date"), pa.date32(), [date(1969, 12, 31), date(9999, 12, 31), None]),
    "clock": (Scalar("time"), pa.time64("us"), [time(0), time(23, 59, 59, 999999), None]),
    "local": (Scalar("timestamp"), pa.timestamp("us"), [AT, None, AT]),
    "moment": (Scalar("timestamptz"), pa.timestamp("us", tz="UTC"), [AT.replace(tzinfo=UTC), None, None]),
    "price": (Decimal(10, 2), pa.decimal128(10, 2), [Number("-1.28"), Number("99999999.99"), Number("0.00")]),
    "code": (Fixed(3), pa.binary(3), [b"abc", None, b"\x00\x01\x02"]),
    "items": (ListOf(Scalar("long")), pa.list_(pa.int64()), [[1, None], [], None]),
    "labels": (MapOf(Scalar("string"), Scalar("int")), pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None]),
    "counts": (MapOf(Scalar("int"), Scalar("string")), pa.map_(pa.int32(), pa.string()), [[(1, "a")], [], None]),
    "point": (
        Struct((Column("x", Scalar("int")), Column("at", Scalar("timestamptz")))),
        POINT,
        [{"x": 1, "at": AT.replace(tzinfo=UTC)}, {"x": None, "at": None}, None],
    ),
}
COLUMNS = tuple(Column(name, kind) for name, (kind, _, _) in SAMPLES.items())


def rows() -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values, arrow) for name, (_, arrow, values) in SAMPLES.items()})


def read_back(payloads: pa.Array, schema: str) -> Iterator[dict[str, Any]]:
    for payload in payloads.to_pylist():
        assert struct.unpack(">bI", payload[:5]) == (0, 7)
        stream = io.BytesIO(payload[5:])
        value: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(schema)), None)
        assert stream.read() == b""
        yield value


def expected(row: dict[str, Any]) -> dict[str, Any]:
    maps = {"labels": dict, "counts": lambda pairs: [{"key": key, "value": value} for key, value in pairs]}
    return {name: maps[name](value) if name in maps and value is not None else value for name, value in row.items()}


@pytest.fixture(params=["native", "python"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AvroEncoder:
    if request.param == "native":
        assert native_encodes()
    else:
        monkeypatch.setattr(encode, "native_encodes", lambda: False)
    schema = schema_of(COLUMNS, name="Every", namespace="lake", table="lake.every")
    return AvroEncoder(schema, 7, COLUMNS)


def test_each_type_is_read_back_as_it_was(encoder: AvroEncoder) -> None:
    found = list(read_back(encoder.payloads(rows()), encoder.schema))

    assert found == [expected(row) for row in rows().to_pylist()]


def test_a_slice_of_rows_is_encoded_as_these_rows(encoder: AvroEncoder) -> None:
    found = list(read_back(encoder.payloads(rows().slice(1, 2)), encoder.schema))

    assert found == [expected(row) for row in rows().to_pylist()[1:]]


def test_a_uuid_is_its_text(encoder: AvroEncoder) -> None:
    columns = (Column("id", Scalar("uuid")),)
    schema = schema_of(columns, name="Ids", namespace="lake", table="lake.ids")
    stored = pa.record_batch({"id": pa.array([ID.bytes, None], pa.uuid())})

    payloads = AvroEncoder(schema, 7, columns).payloads(stored)

    assert [value["id"] for value in read_back(payloads, schema)] == [ID, None]
    assert str(ID).encode() in payloads[0].as_py()


def test_names_that_avro_does_not_have_are_named() -> None:
    columns = (Column("größe", Scalar("int")), Column("a", Struct((Column("b-c", Scalar("int")),))))

    with pytest.raises(OutputSchemaError, match=r"größe, a\.b-c"):
        schema_of(columns, name="T", namespace="lake", table="lake.t")


INNER = Struct((Column("x", Scalar("int")),))
OTHER = Struct((Column("y", Fixed(2)),))


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"a": Struct((Column("b", INNER),)), "a_c": OTHER}, ["T_a", "T_a_b", "T_a_c", "T_a_c_y"]),
        ({"a": Struct((Column("b", INNER),)), "a_b": OTHER}, ["T_a", "T_a_b", "T_a_b_2", "T_a_b_y"]),
        ({"a_b": OTHER, "a": Struct((Column("b", OTHER),))}, ["T_a_b", "T_a_b_y", "T_a", "T_a_b_2", "T_a_b_y_2"]),
        ({"a": ListOf(INNER), "a_item": OTHER}, ["T_a_item", "T_a_item_2", "T_a_item_y"]),
        ({"a": ListOf(INNER), "a_item": INNER, "a_item_2": INNER}, ["T_a_item", "T_a_item_3", "T_a_item_2"]),
        (
            {"a": MapOf(Scalar("string"), INNER), "b": MapOf(Scalar("int"), INNER), "a_value": Fixed(2)},
            ["T_a_value", "T_b", "T_b_value", "T_a_value_2"],
        ),
    ],
)
def test_each_record_of_a_schema_has_a_name_of_its_own(columns: dict[str, ColumnType], names: list[str]) -> None:
    """One whose path gives it a name that no other has keeps that name: registered schemas stay as they are."""
    there = [Column(name, kind) for name, kind in columns.items()]
    schema = schema_of(there, name="T", namespace="lake", table="lake.t")

    found = re.findall(r'"name":"(\w+)","(?:fields|size)"', schema.replace('"namespace":"lake",', ""))
    assert found == ["T", *names]
    fastavro.parse_schema(json.loads(schema))


KNOWN_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Those of the tests of Kafka's Java client (`UtilsTest.testMurmur2`)."""


def test_partitions_are_those_of_javas_clients() -> None:
    keys = pa.array([*KNOWN_HASHES, None], pa.binary())

    found = partition_hashes(keys).to_pylist()

    assert found == [*(value & 0x7FFFFFFF for value in KNOWN_HASHES.values()), None]
    assert [murmur2(key) & 0x7FFFFFFF for key in KNOWN_HASHES] == found[:-1]
