"""The status of the tables of a group says which of them lacks the group's last batch, and what completes it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from grouped_tables import ROUTES, GroupWorld, specs
from test_groups import begun, first_batch, killed_before_refunds, roll_back, world

from frazil.model.routes import Route
from frazil.model.spec import TableSpec
from frazil.monitoring.remarks import remarks
from frazil.status import TableStatus, table_statuses
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

__all__ = ["begun", "first_batch", "world"]

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def statuses(world: GroupWorld, *tables: TableSpec) -> list[TableStatus]:
    return list(table_statuses(world.lake, world.topics, tables or specs(), delta_logs=DeltaLogsInMemory, now=NOW))


def test_a_table_that_lacks_the_last_batch_is_named_until_the_next_run(begun: GroupWorld) -> None:
    killed_before_refunds(begun)
    batch = begun.stands("orders").state.itself

    orders, refunds = statuses(begun)

    assert (orders.lacks_batch, refunds.lacks_batch) == (None, batch)
    assert (orders.problem, refunds.problem) == (None, None)
    assert list(remarks([orders, refunds])) == [
        f"lake.refunds: lacks batch {batch.batch_id} (epoch {batch.epoch}), which the first table of its group has; the"
        " next run of `frazil materialize` completes it first"
    ]
    assert refunds.to_json()["lacks_batch"] == {"epoch": batch.epoch, "batch_id": batch.batch_id}
    begun.catch_up()
    assert list(remarks(statuses(begun))) == []


@pytest.mark.parametrize("table", ["orders", "refunds"])
def test_a_table_that_no_run_can_complete_is_in_trouble(begun: GroupWorld, table: str) -> None:
    begun.catch_up()
    roll_back(begun, table)

    _, refunds = statuses(begun)

    assert (refunds.state, refunds.lacks_batch) == ("in trouble", None)
    assert refunds.problem is not None
    assert refunds.problem.startswith("the tables of lake.events are not at one batch: lake.refunds ")
    assert refunds.problem.endswith("; see docs/operate.md, GroupApartError")


def test_a_table_whose_route_was_added_or_removed_lacks_nothing(begun: GroupWorld) -> None:
    three = specs(*ROUTES, Route("others", "shop.Other"))
    begun.driver(*three).create()
    begun.catch_up(begun.driver(*specs(ROUTES[0])))

    found = statuses(begun, *three)

    assert [(each.lacks_batch, each.problem) for each in found] == [(None, None)] * 3


def test_a_batch_that_is_published_while_the_status_is_read_is_not_lacking(
    begun: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, waiting = type(begun.lake).load, ["lake.refunds"]

    def load_late(lake: object, identifier: str) -> object:
        if identifier in waiting:
            waiting.clear()
            begun.catch_up()
        return load(begun.lake, identifier)

    monkeypatch.setattr(type(begun.lake), "load", load_late)

    assert [(each.lacks_batch, each.problem) for each in statuses(begun)] == [(None, None)] * 2
