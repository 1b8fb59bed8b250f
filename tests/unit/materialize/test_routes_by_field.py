"""Groups whose routes compare a field: each record is accounted for once, and `verify` routes it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld, specs
from policed_tables import DROP, LETTER_KEY, NO_KEY, REDACT
from whole_batches import framed

from frazil.model.policed import policed
from frazil.model.policies import Policies
from frazil.model.routes import FieldCondition, Route
from frazil.model.spec import TableSpec
from frazil.proof.verification import FindingKind
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import a_field, record

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
