"""Groups whose routes compare a field: each record is accounted for once, and `verify` routes it again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld, specs
from policed_tables import DROP, LETTER_KEY, NO_KEY, REDACT
from whole_batches import framed

from frazil.formats.open import grouping_of
from frazil.materialize.ingest.decoders import SchemasById, UnknownIds
from frazil.materialize.ingest.routing import Router
from frazil.model.dead_letter import Reason
from frazil.model.policed import policed
from frazil.model.policies import Policies
from frazil.model.routes import FieldCondition, Route
from frazil.model.spec import FormatSettings, TableSpec
from frazil.proof.verification import FindingKind
from frazil.records import Headers
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record

EVENT = record(a_field("n", "int"), a_field("kind", ["null", "string"]), name="shop.Event")
EVENT_ID = 4
ROUTES = (
    Route("orders", fields=(FieldCondition("kind", ("new", "changed")),)),
    Route("refunds", fields=(FieldCondition("kind", ("refund",)),)),
)
SENT = ("new", "refund", None, "changed", "strange", "refund", "new", "refund")
"""In two batches: the first has six records."""
TABLES = {"lake.orders": [0, 3, 6], "lake.refunds": [1, 5, 7]}


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    made = GroupWorld.at(tmp_path)
    made.registry.register("events-value", EVENT)
    send(made, *SENT)
    return made


def send(world: GroupWorld, *kinds: str | None) -> None:
    for kind in kinds:
        world.values.append(framed(EVENT_ID, EVENT, {"n": len(world.values), "kind": kind}))


def masked(*routes: Route) -> tuple[TableSpec, ...]:
    """The tables of a group that drops or redacts the field by which it divides the records."""
    tables = []
    for spec, policy in zip(specs(*routes, metadata=NO_KEY), (DROP, REDACT), strict=True):
        assert spec.group is not None
        of_masked = replace(spec, group=replace(spec.group, masked=True))
        policies = Policies((("kind", policy),))
        tables.append(policed(of_masked, policies, hash_key=None, dead_letter_key=LETTER_KEY))
    return tuple(tables)


def findings(world: GroupWorld, *tables: TableSpec) -> list[tuple[FindingKind, str]]:
    side = KafkaSide(world.topics, cast(Any, world), world.registry)
    return [
        (found.kind, str(found)) for each in verify_together(world.lake, tables, kafka=side) for found in each.findings
    ]


@pytest.mark.parametrize("tables", [specs(*ROUTES), masked(*ROUTES)], ids=["kept", "masked"])
def test_each_record_is_in_the_table_that_its_field_names(world: GroupWorld, tables: tuple[TableSpec, ...]) -> None:
    world.catch_up(world.driver(*tables))

    assert {table: world.offsets(table) for table in TABLES} == TABLES
    assert world.offsets(DEAD_LETTERS, "offset") == [2, 4]
    group = world.stands("orders").state.group
    assert group is not None
    assert group.total().short_formula() == "8 read = 6 rows + 2 dead letters"
    assert {line.table: line.read for line in group.lines} == {
        "orders": {"events": {0: 3}},
        "refunds": {"events": {0: 3}},
    }
    assert group.routes == ROUTES
    assert findings(world, *tables) == []


@pytest.mark.parametrize("tables", [specs(*ROUTES), masked(*ROUTES)], ids=["kept", "masked"])
def test_a_row_in_a_table_that_its_field_does_not_name_is_found(
    world: GroupWorld, tables: tuple[TableSpec, ...]
) -> None:
    world.catch_up(world.driver(*tables))
    orders = world.lake.catalog.load_table("lake.orders")
    moved = orders.scan(row_filter="kafka_offset = 3").to_arrow()
    refunds = world.lake.catalog.load_table("lake.refunds")
    refunds.append(pa.Table.from_pylist(moved.to_pylist(), refunds.schema().as_arrow()))

    found = findings(world, *tables)

    assert (FindingKind.WRONG_TABLE, "events-0@3: a row in lake.refunds, but lake.orders takes the record") in found


def test_other_values_count_from_the_next_batch_on(world: GroupWorld) -> None:
    world.catch_up(world.driver(*specs(*ROUTES)))
    changed = specs(ROUTES[0], Route("refunds", fields=(FieldCondition("kind", ("refund", "strange")),)))
    send(world, "strange", "refund", None)

    world.catch_up(world.driver(*changed))

    assert world.offsets("lake.refunds") == [1, 5, 7, 8, 9]
    assert world.offsets(DEAD_LETTERS, "offset") == [2, 4, 10]
    assert findings(world, *changed) == []


TEXTS = ('{"kind": "new", "n": 7, "paid": true, "a": {"b": "x"}}', '{"kind": "old", "n": 8}', '{"n": null}')
PROTO = 'syntax = "proto3"; package shop; enum Kind { NEW = 0; OLD = 1; } message Row { Kind kind = 1; uint64 n = 2; }'
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["new", "old"]},
            "n": {"type": ["integer", "null"]},
            "paid": {"type": "boolean"},
            "a": {"type": "object", "properties": {"b": {"type": "string"}}},
        },
    }
)
DECLARED = json.dumps({"kind": "string", "n": "long", "paid": "boolean", "a": {"b": "string"}})
OF_FORMATS = [
    ("json", "kind", "new", [0]),
    ("json", "n", "8", [1]),
    ("json", "paid", "true", [0]),
    ("json", "a.b", "x", [0]),
    ("json_schema", "kind", "old", [1]),
    ("json_schema", "n", "7", [0]),
    ("json_schema", "paid", "true", [0]),
    ("json_schema", "a.b", "x", [0]),
    ("protobuf", "kind", "OLD", [1]),
    ("protobuf", "n", "18446744073709551615", [0]),
]


def payloads_of(value: str) -> list[bytes]:
    if value == "json":
        return [text.encode() for text in TEXTS]
    if value == "json_schema":
        return [b"\0\0\0\0\1" + text.encode() for text in TEXTS]
    fields = (b"\x10" + b"\xff" * 9 + b"\x01", b"\x08\x01\x10\x05")
    return [b"\0\0\0\0\1\0" + each for each in fields]


@pytest.mark.parametrize(("value", "path", "wanted", "taken"), OF_FORMATS)
def test_fields_of_each_format_are_compared(value: str, path: str, wanted: str, taken: list[int]) -> None:
    registry = RegistryInMemory()
    if value == "json_schema":
        registry.register("events-value", JSON_SCHEMA, schema_format="JSON")
    elif value == "protobuf":
        registry.register("events-value", PROTO, schema_format="PROTOBUF")
    schemas = SchemasById(value, dict(registry.schemas), UnknownIds(registry))
    router = Router(
        [Route("taken", fields=(FieldCondition(path, (wanted,)),))],
        schemas,
        [FormatSettings(fields=DECLARED if value == "json" else "")],
    )
    payloads = pa.array(payloads_of(value), pa.large_binary())
    headers = Headers.of([[]] * len(payloads))

    divided = router.divide(payloads, grouping_of(value)(payloads, headers), headers)

    assert divided.taken_by(0).tolist() == taken
    assert {index: reject.reason for index, reject in divided.rejects.items()} == {
        index: Reason.NO_ROUTE for index in range(len(payloads)) if index not in taken
    }
