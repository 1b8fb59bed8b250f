"""Replays into tables that follow keys: an old record loses, whatever happened since it became a dead letter."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_letters import BY_TIME, LateKeys, Place

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import REPLAY_STEPS
from frazil.materialize.state import standing
from frazil.model.errors import FrazilError
from frazil.model.progress import Counts
from tests.fakes.disturbed_commits import ACTS, COMPACT, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import examples, sampled


@pytest.fixture
def table(tmp_path: Path) -> LateKeys:
    """An upsert that timestamps order, with dead letters that are older or newer than rows, or older than a delete."""
    made = LateKeys.at(tmp_path, **BY_TIME)
    made.send(("a", 1, 5), ("b", 1, 5), ("c", None, 9))
    made.send(("a", 2, 3), ("b", 2, 7), ("c", 2, 8), ("d", 2, 2), late=True)
    made.batch()
    made.send(("d", 3, 1), partition=1)
    made.batch()
    made.fix()
    return made


def counts(table: LateKeys) -> Counts:
    return standing(table.view, pipeline=table.spec.pipeline).state.total()


def test_an_old_record_loses_and_a_newer_one_wins(table: LateKeys) -> None:
    before = standing(table.view, pipeline=table.spec.pipeline).state

    result = table.replay()

    after = standing(table.view, pipeline=table.spec.pipeline).state
    assert (result.replayed, result.duplicates, result.deletes, dict(result.stayed)) == (4, 2, 0, {})
    assert table.stored() == [("a", 0, 0), ("b", 0, 4), ("d", 0, 6)]
    assert counts(table) - before.total() == Counts(rows=2, duplicates=2, dead_letters=-4)
    assert [p.next for p in after.sources[0].partitions.values()] == [
        p.next for p in before.sources[0].partitions.values()
    ]
    table.check()


def test_a_second_replay_does_nothing(table: LateKeys) -> None:
    table.replay()
    head = table.view.head

    assert table.replay().replayed == 0

    assert table.view.head == head


def test_dead_letters_that_delete_are_remembered_deletes(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.send(("a", 1, 1), ("b", 1, 9))
    table.send(("a", None, 5), ("b", None, 5), ("c", None, 5), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, result.deletes) == (3, 1, 2)
    table.check()
    table.send(("a", 2, 4), ("c", 2, 4), ("c", 3, 3))
    table.batch()
    assert table.stored() == [("b", 0, 1)]
    table.check()


def test_replayed_records_of_one_key_are_ordered_among_themselves(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.send(("a", 1, 1), ("a", 2, 3), ("b", 1, 1), ("b", None, 3), ("a", 3, 2), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, result.deletes) == (5, 0, 1)
    assert table.stored() == [("a", 0, 1)]
    table.check()


MOMENTS = sampled(
    [(when, step) for step in REPLAY_STEPS for when in ("before", "after")],
    keep=[("before", "replay_stage"), ("before", "replay_publish"), ("before", "replay_reveal")].__contains__,
)
Moment = tuple[str, str]


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_replay_that_dies_is_finished_by_the_next_run(table: LateKeys, moment: Moment) -> None:
    def die(when: str, step: str) -> None:
        if (when, step) == moment:
            raise DiedError

    with pytest.raises(DiedError):
        table.replay(die)
    table.send(("b", 4, 6), ("d", None, 3))
    table.batch()

    visible = moment[1] == "replay_reveal" or moment == ("after", "replay_publish")
    table.check()
    assert len(table.letters()) == (0 if visible else 4)
    assert table.replay().replayed == (0 if visible else 4)
    assert table.stored() == [("a", 0, 0), ("b", 0, 4)]
    table.check()


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_two_replays_at_once_count_each_letter_once(table: LateKeys, moment: Moment) -> None:
    others: list[int] = []

    def another(when: str, step: str) -> None:
        if (when, step) == moment and not others:
            others.append(table.replay().replayed)

    assert table.replay(another).replayed + others[0] == 4

    assert counts(table).dead_letters == 0
    table.check()


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_batch_that_overtakes_a_replay_is_compared_with(table: LateKeys, moment: Moment) -> None:
    done: list[str] = []

    def overtake(when: str, step: str) -> None:
        if (when, step) == moment and not done:
            table.send(("b", 5, 8), ("d", None, 4), ("c", 5, 10))
            table.batch()
            done.append(step)

    assert table.replay(overtake).replayed == 4

    assert table.stored() == [("a", 0, 0), ("b", 0, 7), ("c", 0, 9)]
    table.check()


def test_a_batch_that_a_replay_overtakes_is_compared_with_its_rows(table: LateKeys) -> None:
    def replay(when: str, step: str) -> None:
        if (when, step) == ("after", "ingest"):
            table.replay()

    table.send(("b", 5, 6), ("d", 5, 3))
    slow = table.driver(replay)

    outcomes = [slow.batch(), table.driver().batch()]

    assert [type(outcome).__name__ for outcome in outcomes] == ["Again", "Published"]
    assert table.stored() == [("a", 0, 0), ("b", 0, 4), ("d", 0, 8)]
    table.check()


def test_a_rollback_behind_a_replay_takes_it_back(table: LateKeys) -> None:
    before = table.stored()
    table.replay()
    here = standing(table.view, pipeline=table.spec.pipeline)
    assert here.carrier.parent_id is not None
    loaded = table.world.lake.catalog.load_table(table.spec.identifier)
    loaded.manage_snapshots().rollback_to_snapshot(here.carrier.parent_id).commit()

    assert table.stored() == before
    assert table.verify().findings == ()
    assert table.replay().replayed == 4
    table.check()


def test_the_first_record_that_is_published_stays(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, write="deduplicate", on_tombstone="row")
    table.send(("a", 1, 9), ("b", 1, 9))
    table.send(("a", 2, 1), ("c", 2, 5), ("c", 3, 4), ("d", None, 1), late=True)
    table.batch()
    table.send(("d", 4, 8))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, result.deletes) == (4, 3, 0)
    assert table.stored() == [("a", 0, 0), ("b", 0, 1), ("c", 0, 4), ("d", 0, 6)]
    table.check()
    assert counts(table) == Counts(read=7, rows=4, duplicates=3)


def test_a_late_version_splits_the_interval_that_it_falls_into(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, write="history", **BY_TIME)
    table.send(("a", 1, 10), ("a", 2, 20), ("b", 1, 10), ("c", 1, 10))
    table.send(("a", 3, 15), ("b", None, 12), ("b", 3, 11), ("c", 3, 8), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.deletes, result.duplicates) == (4, 1, 0)
    table.check()
    assert [row[1:] for row in table.stored("valid_from", "valid_to") if row[0] == "a"] == [
        (0, 0, 10, 15),
        (0, 1, 20, None),
        (0, 4, 15, 20),
    ]


def test_a_late_version_by_offset_comes_between_the_rows_around_it(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, write="history")
    table.send(("a", 1, 10), ("b", 1, 10))
    table.send(("a", 2, 15), ("b", 2, 30), ("c", 2, 10), ("b", None, 12), late=True)
    table.batch()
    table.send(("a", 3, 20), ("b", 3, 20), ("b", 4, 40))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.deletes, dict(result.stayed)) == (4, 1, {})
    table.check()
    assert [row[1:] for row in table.stored("valid_from", "valid_to") if row[0] == "b"] == [
        (0, 1, 10, 30),
        (0, 3, 30, 30),
        (0, 7, 30, 40),
        (0, 8, 40, None),
    ]


RECORD = st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none(), st.integers(1, 9))
WRITTEN = st.tuples(RECORD, st.integers(0, 1), st.booleans())
MODES: list[dict[str, Any]] = [
    {},
    BY_TIME,
    {"write": "history"},
    {"write": "history", **BY_TIME},
    {"write": "deduplicate", "on_tombstone": "row"},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@settings(max_examples=examples(2, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WRITTEN, min_size=1, max_size=6), min_size=1, max_size=3), st.data())
def test_any_records_with_replays_between_their_batches_are_the_model(
    tmp_path: Path, mode: dict[str, Any], batches: list[list[Any]], data: st.DataObject
) -> None:
    table = LateKeys.at(tmp_path, **mode)
    fixed_before = data.draw(st.integers(0, len(batches)))
    by_offset = "order_by" not in mode and mode.get("write") != "deduplicate"
    for number, batch in enumerate(batches):
        if number == fixed_before:
            table.fix()
        for one, partition, late in batch:
            table.send(one, partition="abc".index(one[0]) % 2 if by_offset else partition, late=late)
        table.catch_up()
        if data.draw(st.booleans()):
            table.replay()
        table.check()
    if fixed_before == len(batches):
        table.fix()
    table.replay()

    table.check()
    assert table.letters() <= (undecidable(table) if by_offset else set())


def undecidable(table: LateKeys) -> set[Place]:
    """Return the records that were dead letters in partitions with deletes."""
    deletes = {each.place[0] for each in table.sent if each.n is None}
    return {each.place for each in table.sent if each.is_late and each.place[0] in deletes}


COMMITS = sampled(
    [(act, number) for act in (*ACTS, COMPACT) for number in range(1, 7)],
    keep=[("die after", 1), ("die before", 3), ("lose the answer", 3), ("compact before", 3)].__contains__,
)


@pytest.mark.parametrize(("act", "number"), COMMITS)
def test_a_replay_survives_what_happens_to_each_commit(table: LateKeys, act: str, number: int) -> None:
    settings = table.world.lake._settings

    def compact() -> None:
        loaded = IcebergLake(settings).catalog.load_table(table.spec.identifier)
        loaded.overwrite(loaded.scan().to_arrow())

    table.world.lake = WatchedLake(settings, around=disturbed(act, number, compact=compact))
    with suppress(DiedError, FrazilError):
        table.replay()
    table.world.lake = IcebergLake(settings)
    table.send(("b", 4, 6))
    table.catch_up()

    table.check()
    table.replay()
    assert table.stored() == [("a", 0, 0), ("b", 0, 4), ("d", 0, 6)]
    assert counts(table).dead_letters == 0
    table.check()


@pytest.mark.parametrize(
    "more", [{}, BY_TIME, {"write": "history"}, {"write": "deduplicate", "on_tombstone": "row"}], ids=str
)
@pytest.mark.parametrize(("key", "n"), [("new", 5), ("a", 5), ("a", None)])
def test_skipped_records_that_can_be_decoded_now_are_unchecked(
    tmp_path: Path, more: dict[str, Any], key: str, n: int | None
) -> None:
    """They were skipped, and are the newest records of their keys now."""
    table = LateKeys.at(tmp_path, on_bad_record="skip", **more)
    table.send(("a", 1, 1), ("b", 1, 1))
    table.send((key, n, 5), late=True)
    table.catch_up()
    table.fix()

    verification = table.against_kafka()

    assert verification.findings == ()
    skipped = more.get("write") == "deduplicate" and key == "a"  # a duplicate, had it been decoded
    assert any("skipped" in note for note in verification.notes) != skipped
