"""A run pauses its table only if the table has not changed since the run saw it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.materialize.pause.fenced_pause import pause_at
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, pause_by_run, pause_property
from frazil.model.errors import BadRecordLimitError, FencedError
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from tests.table.small_lake import Read, SmallLake

CAUSE = BadRecordLimitError("too many bad records", hint="fix the producer")


def pause(lake: SmallLake, planned: TableState) -> None:
    pause_at(lake.lake, lake.spec, planned, "why", because=CAUSE)


def paused(lake: SmallLake) -> bool:
    return PAUSED_PROPERTY in lake.view.properties


def test_a_table_that_stands_where_it_was_seen_is_paused(lake: SmallLake) -> None:
    pause(lake, lake.state)

    assert lake.view.properties[PAUSED_PROPERTY] == "why"


def test_a_pause_by_an_operator_is_kept_and_one_by_a_run_is_replaced(lake: SmallLake) -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    lake.lake.set_properties(
        lake.spec.identifier, put={PAUSED_PROPERTY: pause_by_run(because=BadRecordLimitError("", hint=""), at=at)}
    )
    pause(lake, lake.state)
    assert lake.view.properties[PAUSED_PROPERTY] == "why"

    for operator in ("alice", "frazil"):
        theirs = pause_property(by=operator, why="maintenance", at=at)
        lake.lake.set_properties(lake.spec.identifier, put={PAUSED_PROPERTY: theirs})
        pause(lake, lake.state)
        assert lake.view.properties[PAUSED_PROPERTY] == theirs


def test_a_process_that_was_overtaken_does_not_pause_what_its_successor_published(lake: SmallLake) -> None:
    planned = lake.state
    lake.batch(Read("orders", 0, 100, 110))

    with pytest.raises(FencedError, match="too many bad records"):
        pause(lake, planned)

    assert not paused(lake)


def test_a_table_that_was_rolled_back_meanwhile_is_left_to_the_next_batch(lake: SmallLake) -> None:
    head = lake.view.head_snapshot()
    assert head is not None and head.parent_id is not None
    lake.table.manage_snapshots().rollback_to_snapshot(head.parent_id).commit()

    pause(lake, lake.state)

    assert not paused(lake)


@pytest.mark.parametrize("change", ["by another pipeline's engine", "by the successor"])
def test_a_commit_between_the_look_and_the_pause_is_noticed(
    lake: SmallLake, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, commit, done = lake.state, lake.lake.set_property_at, []

    def overtaken(view: TableView, name: str, value: str) -> None:
        if not done:
            done.append(change)
            if change == "by the successor":
                lake.batch(Read("orders", 0, 100, 110))
            else:
                lake.table.delete("kafka_offset = 3")
        commit(view, name, value)

    monkeypatch.setattr(lake.lake, "set_property_at", overtaken)

    if change == "by the successor":
        with pytest.raises(FencedError):
            pause(lake, planned)
        assert not paused(lake)
    else:
        pause(lake, planned)
        assert paused(lake)
