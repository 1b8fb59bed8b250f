"""`on_incompatible_schema: new_column` with Protobuf and JSON Schema, decoded natively and in Python."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.message_factory import GetMessageClass
from values_of_tables import spec
from whole_batches import World, drained

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.json_values import open as json_values
from frazil.formats.native import choose_decoder, native_available
from frazil.formats.protobuf import open as protobuf
from frazil.formats.protobuf.schema import parse_schema
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

PRICES = {1: "1.5", 2: 15, 3: True}
NAMES = ("price", "price__v2", "price__v3")
EXPECTED = {1: ("1.5", None, None), 2: (None, 15, None), 3: (None, None, True)}
FORMATS = {"protobuf": "PROTOBUF", "json_schema": "JSON"}


def schema(value: str, schema_id: int) -> str:
    if value == "protobuf":
        kind = {1: "string", 2: "int64", 3: "bool"}[schema_id]
        row = f"message Row {{ {kind} price = 1; repeated Item items = 2; }}"
        return f'syntax = "proto3"; package shop; {row} message Item {{ {kind} price = 1; }}'
    price = {"type": {1: "string", 2: "integer", 3: "boolean"}[schema_id]}
    item = {"type": "object", "properties": {"price": price}}
    return json.dumps({"type": "object", "properties": {"price": price, "items": {"type": "array", "items": item}}})


def sent(value: str, schema_id: int) -> bytes:
    record = {"price": PRICES[schema_id], "items": [{"price": PRICES[schema_id]}]}
    frame = struct.pack(">bI", 0, schema_id)
    if value == "json_schema":
        return frame + json.dumps(record).encode()
    message: Any = GetMessageClass(parse_schema(schema(value, schema_id)).message)
    return frame + b"\0" + bytes(message(**record).SerializeToString())


@pytest.fixture(params=["native", "fallback"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "native" and not native_available():
        pytest.skip("the native decoder is not built here (make setup builds it)")

    def only(asked: object, *decoders: Any, uncovered: str) -> Any:
        del asked
        return choose_decoder(request.param, *decoders, uncovered=uncovered)

    for module in (json_values, protobuf):
        monkeypatch.setattr(module, "choose_decoder", only)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("value", FORMATS)
def test_each_type_has_its_own_column_in_every_format(tmp_path: Path, value: Any) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    wanted = spec(value=value, on_incompatible_schema="new_column", bad_record_limit=BadRecordLimit.off())
    written: list[int] = []
    changes: list[str] = []

    for schema_id, more in ((1, [1]), (2, [2, 1, 2]), (3, [3, 1, 2])):
        world.registry.register("orders-value", schema(value, schema_id), schema_format=cast(Any, FORMATS[value]))
        world.values += [sent(value, each) for each in more]
        written += more
        changes += drained(world, wanted)

    assert changes == [
        f"add column {at}price__v{number}: {kind}, beside {at}price"
        for number, kind in ((2, "long"), (3, "boolean"))
        for at in ("", "items[].")
    ]
    found = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow().sort_by("kafka_offset").to_pylist()
    assert [tuple(row[name] for name in NAMES) for row in found] == [EXPECTED[each] for each in written]
    assert [tuple(row["items"][0][name] for name in NAMES) for row in found] == [EXPECTED[each] for each in written]
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    assert verify_table(world.lake, wanted, kafka=kafka).clean
