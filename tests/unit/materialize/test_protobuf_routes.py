"""Routes by the messages of Protobuf: those of one schema, and those of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.open import grouping_of
from frazil.materialize.ingest.decoders import SchemasById, UnknownIds
from frazil.materialize.ingest.routing import Router
from frazil.model.dead_letter import Reason
from frazil.model.routes import FieldCondition, HeaderCondition, Route
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import CatalogSettings
from frazil.model.spec import FormatSettings, TableSpec
from frazil.records import HeaderList, Headers
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import RegistryInMemory
from tests.routes import group_specs

SHOP = """
syntax = "proto3";
package shop;
message Order { int32 n = 1; message Line { int32 n = 1; string item = 2; } }
message Refund { int32 n = 1; string why = 2; }
"""
LATER = SHOP.replace("string why = 2;", "string why = 2; bool late = 3;")
VISIT = 'syntax = "proto3"; package web; message Visit { int32 n = 1; }'
ROUTES = """
topic: events
table: events
value: protobuf
metadata: {keep: [offset]}
partition_by: []
bad_record_limit: off
routes:
  - {table: orders, schema: shop.Order}
  - {table: lines, schema: shop.Order.Line, field: {item: [tea]}}
  - {table: refunds, schema: shop.Refund}
"""
ORDER, LINE, REFUND = b"\0", b"\x04\0\0", b"\x02\x02"
"""The message indexes of each."""


def sent(schema_id: int, indexes: bytes, n: int, text: str = "") -> bytes:
    fields = bytes([8, n]) + (bytes([18, len(text)]) + text.encode() if text else b"")
    return b"\0" + schema_id.to_bytes(4, "big") + indexes + fields


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    made = GroupWorld(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))), names=("events",))
    made.registry.register("events-value", SHOP, schema_format="PROTOBUF")
    return made


@pytest.fixture
def tables(tmp_path: Path) -> tuple[TableSpec, ...]:
    return group_specs(tmp_path, ROUTES)


def rows(world: GroupWorld, table: str) -> list[dict[str, Any]]:
    found = world.lake.catalog.load_table(f"lake.{table}").scan().to_arrow()
    given = found.drop_columns(["kafka_partition"]).to_pylist()
    return sorted(given, key=lambda row: row["kafka_offset"])


def findings(world: GroupWorld, tables: tuple[TableSpec, ...]) -> list[str]:
    """What `verify --against-kafka` finds."""
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return [str(found) for proof in verify_together(world.lake, tables, kafka=kafka) for found in proof.findings]


def test_each_message_of_a_schema_has_its_table_with_its_columns(
    world: GroupWorld, tables: tuple[TableSpec, ...]
) -> None:
    world.values += [
        sent(1, ORDER, 0),
        sent(1, REFUND, 1, "broken"),
        sent(1, b"\x02\x00", 2),  # an order, too, in the long form
        sent(1, LINE, 3, "tea"),
        sent(1, LINE, 4, "rice"),
        sent(1, b"\x02\x08", 5),
        sent(1, REFUND, 6)[:6],
    ]
    world.catch_up(world.driver(*tables))

    assert rows(world, "orders") == [{"n": 0, "kafka_offset": 0}, {"n": 2, "kafka_offset": 2}]
    assert rows(world, "lines") == [{"n": 3, "item": "tea", "kafka_offset": 3}]
    assert rows(world, "refunds") == [{"n": 1, "why": "broken", "kafka_offset": 1}]
    dead = world.lake.catalog.load_table(DEAD_LETTERS).scan().to_arrow().to_pylist()
    assert sorted((each["offset"], each["reason"]) for each in dead) == [
        (4, "no_route"),
        (5, "bad_index"),
        (6, "truncated"),
    ]
    assert findings(world, tables) == []


def test_tables_follow_their_message_through_versions_and_files(
    world: GroupWorld, tables: tuple[TableSpec, ...]
) -> None:
    world.values += [sent(1, ORDER, 0), sent(1, REFUND, 1, "x")]
    world.catch_up(world.driver(*tables))
    world.registry.register("events-value", LATER, schema_format="PROTOBUF")
    world.registry.register("events-value", VISIT, schema_format="PROTOBUF")
    world.values += [sent(2, REFUND, 2, "y") + b"\x18\x01", sent(3, ORDER, 3), sent(2, ORDER, 4)]
    world.catch_up(world.driver(*tables))

    assert [(row["n"], row["late"]) for row in rows(world, "refunds")] == [(1, None), (2, True)]
    assert [row["n"] for row in rows(world, "orders")] == [0, 4]
    assert world.offsets(DEAD_LETTERS, "offset") == [3]
    assert findings(world, tables) == []


def test_rows_of_a_removed_route_stay_right(world: GroupWorld, tmp_path: Path) -> None:
    """Each file has other messages than the ledger's."""
    world.registry.register(
        "events-value", VISIT.replace("}", "} message Click { int32 n = 1; }"), schema_format="PROTOBUF"
    )
    visits, clicks = "{table: visits, schema: web.Visit}", "{table: clicks, schema: web.Click}"
    head = ROUTES[: ROUTES.index("  - {table: lines")]
    world.values += [sent(1, ORDER, 0), sent(2, ORDER, 1), sent(2, REFUND, 2)]
    world.catch_up(world.driver(*group_specs(tmp_path / "all", f"{head}  - {visits}\n  - {clicks}\n")))

    left = group_specs(tmp_path / "left", f"{head}  - {clicks}\n")

    assert rows(world, "clicks") == [{"n": 2, "kafka_offset": 2}]
    assert findings(world, left) == []


def routed(
    routes: list[Route], values: list[bytes], headers: list[HeaderList], word: str = "protobuf"
) -> tuple[list[int], dict[int, Reason]]:
    registry = RegistryInMemory()
    registry.register("events-value", SHOP, schema_format="PROTOBUF")
    schemas: dict[Any, RegisteredSchema] = dict(registry.schemas)
    settings = [FormatSettings(message=route.schema) for route in routes]
    router = Router(routes, SchemasById(word, schemas, UnknownIds(registry)), settings)
    payloads, given = pa.array(values, pa.large_binary()), Headers.of(headers)
    divided = router.divide(payloads, grouping_of(word)(payloads, given), given)
    return divided.route_of.tolist(), {index: each.reason for index, each in divided.rejects.items()}


def test_conditions_on_messages_headers_and_fields_hold_together() -> None:
    routes = [
        Route("tea", "shop.Order.Line", fields=(FieldCondition("item", ("tea",)),)),
        Route("late", "shop.Refund", headers=(HeaderCondition("late", "yes"),)),
        Route("first", fields=(FieldCondition("n", ("7",)),)),
        Route("rest", "shop.Refund"),
    ]
    late: HeaderList = [("late", b"yes")]
    values = [
        sent(1, LINE, 1, "tea"),
        sent(1, LINE, 1, "rice"),
        sent(1, REFUND, 1),
        sent(1, REFUND, 1),
        sent(1, ORDER, 7),
        sent(1, ORDER, 8),
    ]

    found = routed(routes, values, [[], [], late, [], [], late])

    assert found == ([0, -1, 1, 3, 2, -1], {1: Reason.WRONG_MESSAGE, 5: Reason.NO_ROUTE})
