"""Keys of change events have the columns of their named types, and indexes of the payloads."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any
from uuid import UUID

from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect_json.records import by_schema
from frazil.formats.connect_json.schema import read_schema
from frazil.formats.debezium.json_schema import json_schema_keys
from frazil.formats.debezium.keys import avro_keys, json_keys
from frazil.formats.json_schema.schema import expand
from frazil.model.dead_letter import Reason
from frazil.records import binary
from tests.fakes.connect_samples import (
    INT,
    STRING,
    avro_payload,
    avro_schema,
    json_record,
    json_schema,
    json_schema_payload,
    json_value,
    named,
    struct,
)

KEY = struct(
    "shop.public.orders.Key",
    ref=named("io.debezium.data.Uuid", STRING),
    day=named("io.debezium.time.Date", INT),
)
A_UUID = "6c84fb90-12c4-11e1-840d-7b25c5ee775a"
GIVEN = [{"ref": A_UUID, "day": 19_675}, {"ref": "x", "day": 1}, {"ref": A_UUID, "day": 1}]
KEPT = [
    {"ref": UUID(A_UUID), "day": dt.date(2023, 11, 14)},
    {"ref": UUID(A_UUID), "day": dt.date(1970, 1, 2)},
]


def test_keys_in_avro_are_converted(engine: Any) -> None:
    decoder = avro_keys(parse_schema(avro_schema(KEY)), engine)

    decoded = decoder.decode(binary([b"\xff", *(avro_payload(KEY, each) for each in GIVEN)]))

    assert decoded.rows.to_pylist() == KEPT
    assert [(each.index, each.reason) for each in decoded.rejects] == [(0, Reason.TRUNCATED), (2, Reason.BAD_FORMAT)]
    assert (decoded.rows.schema, decoded.taken) == (decoder.schema, 4)


def test_keys_in_json_are_converted(engine: Any) -> None:
    records = binary([json_record(KEY, each) for each in GIVEN])
    (same,) = by_schema(records)
    assert same.schema is not None

    decoded = json_keys(read_schema(same.schema), engine).decode(same.payloads(records))

    assert decoded.rows.to_pylist() == KEPT
    assert [(each.index, each.reason) for each in decoded.rejects] == [(1, Reason.BAD_FORMAT)]


def test_keys_in_json_begin_where_they_are_said_to(engine: Any) -> None:
    (same,) = by_schema(binary([json_record(KEY, GIVEN[0])]))
    assert same.schema is not None
    payload = b"12345" + json.dumps(json_value(KEY, GIVEN[0])).encode()

    decoded = json_keys(read_schema(same.schema), engine).decode(binary([payload]), skip=5)

    assert decoded.rows.to_pylist() == KEPT[:1]


def test_keys_in_json_schema_are_converted(engine: Any) -> None:
    decoder = json_schema_keys(expand(json_schema(KEY)), engine)

    decoded = decoder.decode(binary([json_schema_payload(KEY, each) for each in GIVEN]))

    assert decoded.rows.to_pylist() == [{**each, "_extra": None} for each in KEPT]
    assert [(each.index, each.reason) for each in decoded.rejects] == [(1, Reason.BAD_FORMAT)]


def test_keys_of_heartbeats_in_json_schema_are_of_no_row() -> None:
    key = struct("io.debezium.connector.common.ServerNameKey", serverName=STRING)

    decoded = json_schema_keys(expand(json_schema(key))).decode(binary([b'{"serverName": "shop"}']))

    assert [each.reason for each in decoded.rejects] == [Reason.NULL_IDENTITY]
