"""One pause, one set of excluded schemas and one table of dead letters for all tables of a group."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from grouped_tables import DEAD_LETTERS, SCHEMAS, GroupWorld, specs
from whole_batches import framed

from frazil.dead_letters import list_dead_letters
from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.model.errors import IncompatibleSchemaError, Misuse, PausedError
from frazil.status import TableStatus, table_statuses
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WRONG_REFUND = record(a_field("n", "string"), name="shop.Refund")
"""The table of refunds cannot hold it: `n` is a number there."""


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    made = GroupWorld.at(tmp_path)
    made.send("order", "refund", "other", "order")
    made.catch_up()
    return made


def statuses(world: GroupWorld) -> dict[str, TableStatus]:
    found = table_statuses(world.lake, world.topics, specs(), delta_logs=DeltaLogsInMemory, now=NOW)
    return {each.table: each for each in found}


def test_a_pause_stops_all_tables_and_each_shows_it(world: GroupWorld) -> None:
    ledger = specs()[0]
    pause(world.lake, ledger, by="ann", why="a repair", at=NOW)
    world.send("refund")

    with pytest.raises(PausedError):
        world.driver().batch()
    assert {name: (each.state, str(each.pause).partition(":")[2]) for name, each in statuses(world).items()} == {
        "lake.orders": ("paused", str(statuses(world)["lake.orders"].pause).partition(":")[2]),
        "lake.refunds": ("paused", str(statuses(world)["lake.orders"].pause).partition(":")[2]),
    }

    ended = resume(world.lake, ledger)

    assert ended is not None and "ann" in str(ended)
    assert [each.pause for each in statuses(world).values()] == [None, None]
    world.catch_up()
    world.assert_exactly_once()


def test_the_dead_letters_are_those_of_the_group(world: GroupWorld) -> None:
    found = list_dead_letters(world.lake, specs()[0], limit=10)

    assert found.table == "lake.events"
    assert [(each.offset, each.reason) for each in found.newest] == [(2, "no_route")]
    counts = {name: (each.accounted.dead_letters, each.counts.rows) for name, each in statuses(world).items()}
    assert counts == {"lake.orders": (1, 2), "lake.refunds": (0, 1)}


def refused_refund(world: GroupWorld) -> int:
    """Send a refund with a schema that its table cannot hold, which pauses the group."""
    schema_id = int(str(world.registry.register("events-value", WRONG_REFUND).id))
    world.values.append(framed(schema_id, WRONG_REFUND, {"n": "text"}))
    with pytest.raises(IncompatibleSchemaError):
        world.catch_up()
    return schema_id


def test_a_schema_that_one_table_cannot_hold_pauses_the_group_and_can_be_excluded(world: GroupWorld) -> None:
    schema_id = refused_refund(world)
    first, *others = specs()
    assert [each.state for each in statuses(world).values()] == ["paused", "paused"]

    change_excluded(world.lake, world.registry, first, others=others, exclude=[schema_id])
    resume(world.lake, first)
    world.catch_up()

    assert [each.excluded_schemas for each in statuses(world).values()] == [(schema_id,), (schema_id,)]
    assert world.offsets(DEAD_LETTERS, "offset") == [2, 4]
    refunds = world.lake.load("lake.refunds")
    assert refunds is not None and not excluded_schemas(refunds.properties).ids


@pytest.mark.parametrize("name", ["order", "refund", "other"])
def test_a_schema_whose_records_are_rows_or_that_no_route_takes_is_not_excluded(world: GroupWorld, name: str) -> None:
    first, *others = specs()

    with pytest.raises(Misuse) as refused:
        change_excluded(world.lake, world.registry, first, others=others, exclude=[SCHEMAS[name][0]])

    expected = {
        "order": "has columns in lake.orders, so its records can become rows",
        "refund": "has columns in lake.refunds, so its records can become rows",
        "other": "no route of lake.events takes records with the schema 3",
    }
    assert expected[name] in refused.value.what
