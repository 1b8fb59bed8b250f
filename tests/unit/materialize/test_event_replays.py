"""Replays of change events: an old event loses, and stays where a newer row may have taken values from its row."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from late_events import LateEvents, Place, Row

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import REPLAY_STEPS
from frazil.model.errors import FrazilError
from frazil.model.progress import Counts, PartitionProgress
from tests.fakes.connect_samples import struct
from tests.fakes.debezium_samples import ORDER, POSTGRES_SOURCE, envelope
from tests.fakes.disturbed_commits import ACTS, COMPACT, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import examples, sampled

AGAIN = envelope("shop.public.again", struct("shop.public.again.Value", **ORDER), POSTGRES_SOURCE)


@pytest.fixture
def table(tmp_path: Path) -> LateEvents:
    """Dead letters that are older than a whole row, newer than a row, of a key without a row, and that lack values."""
    made = LateEvents.of(tmp_path)
    made.put((1, "whole", "a"), (2, "whole", "a"))
    made.put((1, "whole", "b"), (2, "notes", "b"), (3, "whole", "b"), (3, "tags", "c"), late=True)
    made.batch()
    made.put((1, "whole", "d"))
    made.batch()
    made.fix()
    return made


REPLAYED = {1: Row("d", ("d",), (0, 6)), 2: Row("a", ("b",), (0, 3)), 3: Row("c", ("b",), (0, 5))}


def test_an_old_event_loses_and_a_newer_one_wins_with_the_values_that_it_lacks(table: LateEvents) -> None:
    before = table.state

    result = table.replay()

    assert (result.replayed, result.duplicates, result.deletes, dict(result.stayed)) == (4, 1, 0, {})
    assert table.stored() == REPLAYED
    assert table.state.total() - before.total() == Counts(rows=3, duplicates=1, dead_letters=-4)
    table.check()
    assert table.replay().replayed == 0


def test_an_event_stays_a_dead_letter_if_a_newer_row_may_have_taken_values_from_it(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"), (2, "whole", "a"))
    table.put((1, "whole", "b"), (2, "whole", "b"), late=True)
    table.put((1, "notes", "c"))
    table.put((2, "whole", "d"), late=True)
    table.batch()
    table.put((2, "whole", "e"))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, dict(result.stayed)) == (1, 1, {"values_unknown": 2})
    assert "may have taken values from the row before it" in result.examples["values_unknown"]
    assert table.waiting() == {(0, 2), (0, 3)}
    assert table.stored()[1] == Row("a", ("c",), (0, 4))
    table.check()


def test_an_event_that_was_replayed_may_have_taken_values_too(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"))
    table.put((1, "whole", "b"), (1, "notes", "c"), late=True)
    table.batch()
    table.fix()

    assert table.replay(record=("orders", 0, 2)).replayed == 1
    assert table.stored() == {1: Row("a", ("c",), (0, 2))}
    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (0, {"values_unknown": 1})
    table.check()


def test_a_table_of_an_earlier_release_does_not_know_which_events_took_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartitionProgress, "beginning_at", lambda offset: PartitionProgress(offset, offset, offset))
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"), late=True)
    table.put((1, "whole", "b"))
    table.batch()
    table.fix()

    assert dict(table.replay().stayed) == {"values_unknown": 1}
    table.put((1, "notes", "c"))
    table.batch()
    assert [p.last_incomplete for p in table.state.sources[0].partitions.values()] == [None]
    table.check()


def test_a_key_without_a_row_stays_a_dead_letter_if_it_may_have_been_deleted(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"), (2, "whole", "a"))
    table.put((1, "whole", "b"), (1, "delete", ""), (2, "tombstone", ""), (3, "whole", "b"), late=True)
    table.batch()
    table.put((4, "delete", ""))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.deletes, dict(result.stayed)) == (3, 2, {"order_unknown": 1})
    assert table.waiting() == {(0, 5)}
    table.check()


def test_a_truncate_stays_a_dead_letter(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"), (2, "whole", "a"))
    table.put((1, "whole", "b"), late=True)
    table.put_truncate(AGAIN, schema_id=4)
    table.batch()
    table.fix()
    table.register("value", AGAIN)

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"truncate": 1})
    assert table.waiting() == {(0, 3)}
    assert table.stored().keys() == {1, 2}
    table.check()


def test_an_event_that_keeps_a_row_stays_a_dead_letter_if_there_is_none(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"))
    table.put((1, "keeps", ""), (2, "keeps", ""), (3, "whole", "b"), (3, "keeps", ""), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (3, {"no_row_to_keep": 1})
    assert table.waiting() == {(0, 2)}
    table.check()


def test_an_event_stays_a_dead_letter_if_a_skipped_one_would_have_kept_its_row(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path)
    table.put((1, "whole", "a"), (2, "whole", "a"), late=True)
    table.put((1, "keeps", ""))
    table.put((3, "whole", "b"), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"values_unknown": 2})
    assert table.stored().keys() == {3}
    assert table.verified().counts == Counts(read=4, rows=1, dead_letters=2, skipped=1)


def test_a_soft_delete_keeps_the_row_that_is_stored(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path, soft=True)
    table.put((1, "whole", "a"), (2, "whole", "a"))
    table.put((1, "delete", ""), (2, "delete", ""), (3, "delete", ""), (4, "whole", "b"), late=True)
    table.put((2, "whole", "c"))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, result.deletes, dict(result.stayed)) == (4, 1, 0, {})
    assert [key for key, row in table.stored().items() if row.is_deleted] == [1, 3]
    table.check()


def test_a_row_that_was_deleted_softly_may_have_taken_values(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path, soft=True)
    table.put((1, "whole", "a"))
    table.put((1, "whole", "b"), late=True)
    table.put((1, "delete", ""))
    table.batch()
    table.fix()

    assert dict(table.replay().stayed) == {"values_unknown": 1}

    table.check()


def test_the_position_in_the_log_orders_replayed_events(tmp_path: Path) -> None:
    table = LateEvents.of(tmp_path, "postgresql")
    table.put((1, "whole", "a"), (2, "whole", "a"), (3, "whole", "a"), at=10)
    table.put((3, "delete", ""), at=30)
    table.put((1, "whole", "b"), (2, "whole", "b"), (3, "whole", "b"), (4, "whole", "b"), at=9, late=True)
    table.put((1, "whole", "c"), (3, "delete", ""), at=20, partition=1, late=True)
    table.catch_up()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, dict(result.stayed)) == (6, 4, {})
    assert table.stored().keys() == {1, 2, 4}
    table.check()


def test_no_event_loses_to_a_row_that_may_have_taken_values_but_to_a_delete(tmp_path: Path) -> None:
    """The position orders, so that events of one key are in several partitions."""
    table = LateEvents.of(tmp_path, "postgresql")
    table.put((1, "whole", "a"), (2, "whole", "a"), at=1)
    table.put((1, "whole", "b"), (2, "whole", "b"), at=5, late=True)
    table.put((1, "notes", "c"), (2, "delete", ""), at=10, partition=1)
    table.catch_up()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, dict(result.stayed)) == (1, 1, {"values_unknown": 1})
    assert table.waiting() == {(0, 2)}
    table.check()


MOMENTS = sampled(
    [(when, step) for step in REPLAY_STEPS for when in ("before", "after")],
    keep=[("before", "replay_publish"), ("before", "replay_reveal")].__contains__,
)
Moment = tuple[str, str]


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_replay_that_dies_is_finished_by_the_next_run(table: LateEvents, moment: Moment) -> None:
    def die(when: str, step: str) -> None:
        if (when, step) == moment:
            raise DiedError

    with pytest.raises(DiedError):
        table.replay(die)
    table.put((4, "whole", "e"))
    table.batch()

    visible = moment[1] == "replay_reveal" or moment == ("after", "replay_publish")
    table.check()
    assert len(table.waiting()) == (0 if visible else 4)
    assert table.replay().replayed == (0 if visible else 4)
    assert table.stored() == {**REPLAYED, 4: Row("e", ("e",), (0, 7))}
    table.check()


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_batch_that_overtakes_a_replay_is_compared_with(table: LateEvents, moment: Moment) -> None:
    done: list[str] = []

    def overtake(when: str, step: str) -> None:
        if (when, step) == moment and not done:
            done.append(step)
            table.put((2, "tags", "e"), (3, "delete", ""))
            table.batch()

    table.replay(overtake)

    table.check()


COMMITS = sampled(
    [(act, number) for act in (*ACTS, COMPACT) for number in range(1, 7)],
    keep=[("die after", 1), ("compact before", 3)].__contains__,
)


@pytest.mark.parametrize(("act", "number"), COMMITS)
def test_a_replay_survives_what_happens_to_each_commit(table: LateEvents, act: str, number: int) -> None:
    given_settings = table.world.lake._settings

    def compact() -> None:
        loaded = IcebergLake(given_settings).catalog.load_table(table.spec.identifier)
        loaded.overwrite(loaded.scan().to_arrow())

    table.world.lake = WatchedLake(given_settings, around=disturbed(act, number, compact=compact))
    with suppress(DiedError, FrazilError):
        table.replay()
    table.world.lake = IcebergLake(given_settings)
    table.put((4, "whole", "e"))
    table.catch_up()

    table.check()
    table.replay()
    assert table.stored() == {**REPLAYED, 4: Row("e", ("e",), (0, 7))}
    assert table.state.total().dead_letters == 0
    table.check()


KINDS = ("whole", "notes", "tags", "both", "keeps", "delete", "tombstone")
EVENT = st.tuples(st.integers(1, 2), st.sampled_from(KINDS), st.sampled_from("abcd"))
WRITTEN = st.tuples(EVENT, st.integers(0, 9), st.integers(0, 1), st.booleans())


@pytest.mark.parametrize("mode", [{}, {"soft": True}], ids=str)
@settings(max_examples=examples(3, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WRITTEN, min_size=1, max_size=6), min_size=1, max_size=3), st.data())
def test_any_events_with_replays_between_their_batches_are_the_model(
    tmp_path: Path, mode: dict[str, Any], batches: list[list[Any]], data: st.DataObject
) -> None:
    table, fixed_before = LateEvents.of(tmp_path, **mode), data.draw(st.integers(0, len(batches)))
    for number, batch in enumerate(batches):
        if number == fixed_before:
            table.fix()
        for (key, kind, value), _, _, late in batch:
            table.put((key, "whole" if mode and kind == "keeps" else kind, value), late=late)
        table.catch_up()
        if data.draw(st.booleans()):
            table.replay()
        table.check()
    if fixed_before == len(batches):
        table.fix()

    result = table.replay()

    table.check()
    assert sum(result.stayed.values()) == len(table.waiting())
    assert table.waiting() <= undecidable(table)


@settings(max_examples=examples(3, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WRITTEN, min_size=1, max_size=6), min_size=1, max_size=3))
def test_any_whole_events_that_the_position_orders_are_the_model(tmp_path: Path, batches: list[list[Any]]) -> None:
    table = LateEvents.of(tmp_path, "postgresql")
    for batch in batches:
        for (key, kind, value), position, partition, late in batch:
            whole = kind if kind in ("delete", "tombstone") else "whole"
            table.put((key, whole, value), at=position, partition=partition, late=late)
        table.catch_up()
    table.fix()

    result = table.replay()

    table.check()
    assert set(result.stayed) <= {"tombstone"}


def undecidable(table: LateEvents) -> set[Place]:
    """Return the records that may stay dead letters: deletes or events that lack values may follow them."""
    deletes = () if table.soft else ("delete", "tombstone")
    last = max((each.place for each in table.sent if each.kind not in ("whole", *deletes)), default=(-1, -1))
    has_deletes = any(each.kind in deletes for each in table.sent)
    return {
        each.place
        for each in table.sent
        if each.is_late and (has_deletes or each.place < last or each.kind in ("keeps", "tombstone"))
    }
