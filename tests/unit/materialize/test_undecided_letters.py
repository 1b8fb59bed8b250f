"""Dead letters that stay: a table that follows keys cannot compare them with a delete that may have followed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from keyed_letters import BY_TIME, LateKeys
from rebuilt_tables import rebuild, rewind

from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.materialize.state import standing


def test_rows_are_ordered_by_the_offset_of_their_partition(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 1), ("b", 1, 1))
    table.send(("a", 2, 1), ("b", 2, 1), ("c", 2, 1), late=True)
    table.batch()
    table.send(("a", 3, 1))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.duplicates, dict(result.stayed)) == (3, 1, {})
    assert table.stored() == [("a", 0, 5), ("b", 0, 3), ("c", 0, 4)]
    table.check()


def test_a_key_without_a_row_stays_a_dead_letter_where_its_delete_would_not_be_known(tmp_path: Path) -> None:
    """Offsets order, so deletes are not remembered: `b` was deleted after its dead letter, `c` never was."""
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 1), ("e", 1, 1))
    table.send(("a", 2, 1), ("b", 2, 1), ("c", 2, 1), ("e", None, 1), late=True)
    table.send(("d", 2, 1), partition=1, late=True)
    table.batch()
    table.send(("b", None, 1))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, result.deletes, dict(result.stayed)) == (3, 1, {"order_unknown": 2})
    assert table.letters() == {(0, 3), (0, 4)}
    assert table.stored() == [("a", 0, 2), ("d", 1, 0)]
    assert "does not know whether its key was deleted later" in result.examples["order_unknown"]
    table.check()
    assert dict(table.replay().stayed) == {"order_unknown": 2}


def test_a_key_whose_row_others_deleted_stays_a_dead_letter(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 1), ("b", 1, 1))
    table.send(("a", 2, 1), ("b", 2, 1), late=True)
    table.batch()
    table.fix()
    table.world.lake.catalog.load_table(table.spec.identifier).delete("kafka_offset = 0")

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 1})
    assert table.stored() == [("b", 0, 3)]
    assert table.verify().findings == ()


def test_a_key_stays_a_dead_letter_where_a_rebuild_did_not_find_its_delete_any_more(tmp_path: Path) -> None:
    """To Kafka, the dead letter's key is another one: compaction leaves it."""
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 1))
    table.send(("b", 1, 1), late=True)
    table.send(("b", 2, 1), ("b", None, 1), ("c", 1, 1))
    table.catch_up()
    table.world.compacted |= {(0, 2), (0, 3)}
    for act in (rebuild, rebuild, partial(rewind, target=ToOffsets({"orders": {0: 5}}))):
        act(cast(Any, table)).perform()
        assert standing(table.view, pipeline=table.spec.pipeline).state.total().deletes == 0
        table.send(("d", 1, 1))
        table.catch_up()
    table.fix()
    table.catch_up()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (0, {"order_unknown": 1})
    assert table.stored() == [("a", 0, 0), ("c", 0, 4), ("d", 0, 7)]
    assert (table.verify().findings, table.against_kafka().findings) == ((), ())


def test_a_key_in_two_partitions_stays_a_dead_letter(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 1), ("b", 1, 1))
    table.send(("a", 2, 1), ("c", 2, 1), partition=1, late=True)
    table.send(("b", 2, 1), ("c", 2, 1), late=True)
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 3})
    assert table.stored() == [("a", 0, 0), ("b", 0, 2)]
    assert table.verify().findings == ()


@pytest.mark.parametrize(("days", "stays"), [(6.9, False), (7.1, True), (30.0, True)])
@pytest.mark.parametrize("write", ["upsert", "history"])
def test_an_old_letter_stays_where_a_delete_may_be_forgotten(
    tmp_path: Path, write: str, days: float, *, stays: bool
) -> None:
    table = LateKeys.at(tmp_path, write=write, **BY_TIME)
    table.send(("a", 1, 1), ("b", 1, 1), ("b", 2, 5))
    table.send(("a", 2, 2), ("b", 3, 3), ("c", 2, 2), late=True)
    table.batch()
    table.send(("a", None, 4), ("c", None, 4))
    table.batch()
    table.fix()
    table.later(days)
    table.send(("z", None, 9))
    table.batch()

    result = table.replay()

    inside = {"a", "b"} if write == "history" else {"b"}
    assert dict(result.stayed) == ({"order_unknown": 3 - len(inside)} if stays else {})
    table.check()


def with_a_forgotten_delete(folder: Path) -> LateKeys:
    """Return a table that has forgotten the delete of `a`, which followed a dead letter that can be replayed."""
    table = LateKeys.at(folder, **BY_TIME, delete_memory=timedelta(days=1))
    table.send(("a", 2, 2), ("b", 2, 2), late=True)
    table.batch()
    table.send(("a", None, 4), ("b", 3, 1))
    table.batch()
    table.later(2)
    table.send(("z", None, 9))
    table.batch()
    table.fix()
    return table


def test_a_longer_memory_does_not_bring_back_what_was_forgotten_before(tmp_path: Path) -> None:
    table = with_a_forgotten_delete(tmp_path)
    table.spec = replace(table.spec, delete_memory=timedelta(days=30))

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 1})
    table.check()


def test_what_a_clock_that_was_ahead_has_forgotten_stays_forgotten(tmp_path: Path) -> None:
    table = with_a_forgotten_delete(tmp_path)
    table.later(-1.9)

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 1})
    table.check()


def test_no_letter_is_too_old_for_a_table_without_deletes(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.send(("a", 2, 2), late=True)
    table.batch()
    table.fix()
    table.later(400)

    assert table.replay().replayed == 1

    table.check()


def test_nothing_is_published_if_every_letter_stays(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path)
    table.send(("b", None, 1))
    table.send(("a", 2, 1), late=True)
    table.batch()
    table.fix()
    head = table.view.head

    assert (table.replay().replayed, table.view.head) == (0, head)


def test_a_version_between_rows_stays_a_dead_letter_if_a_delete_may_be_there(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, write="history")
    table.send(("a", 1, 10), ("b", 1, 10), ("c", 1, 10))
    table.send(("a", 2, 15), ("b", 2, 15), ("c", 2, 15), late=True)
    table.batch()
    table.send(("a", None, 18), ("b", 3, 18))
    table.batch()
    table.fix()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 2})
    assert table.letters() == {(0, 3), (0, 4)}
    table.check()


def test_letters_from_before_partitions_were_added_stay(tmp_path: Path) -> None:
    """Offsets ordered them, and timestamps order the table now: these say that the letter of `a` is the older one."""
    table = LateKeys.at(tmp_path)
    table.send(("a", 1, 9))
    table.send(("a", 2, 5), late=True)
    table.catch_up()
    table.world.records[2] = []
    table.send(("b", 1, 9), partition=2)
    table.catch_up()
    table.send(("b", 2, 10), ("c", 2, 10), late=True)
    table.catch_up()
    table.fix()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (2, {"order_unknown": 1})
    assert table.stored() == [("a", 0, 0), ("b", 0, 2), ("c", 0, 3)]
    assert table.against_kafka().findings == ()


def test_a_delete_is_remembered_from_when_its_batch_was_read(tmp_path: Path) -> None:
    """The dead letter of the batch is that old only, however long the batch took."""
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.now -= timedelta(hours=3)
    table.send(("a", 1, 1), late=True)
    table.send(("a", 2, 2), ("a", None, 3))

    def observe(when: str, step: str) -> None:
        if (when, step) == ("after", "ingest"):
            table.now += timedelta(hours=3)

    table.driver(observe).batch()
    table.fix()
    table.now += table.spec.delete_memory - timedelta(hours=1, minutes=30)

    result = table.replay()

    assert (result.replayed, result.duplicates, table.stored()) == (1, 1, [])
    assert table.against_kafka().findings == ()


def test_no_delete_is_forgotten_while_a_replay_is_on(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.send(("a", 1, 1), late=True)
    table.send(("a", 2, 2))
    table.batch()
    table.send(("a", None, 3))
    table.batch()
    table.fix()
    table.now += table.spec.delete_memory - timedelta(seconds=30)

    def observe(when: str, step: str) -> None:
        if (when, step) == ("before", "replay_stage"):
            table.now += timedelta(minutes=1)

    assert table.replay(observe).duplicates == 1
    assert (table.stored(), table.against_kafka().findings) == ([], ())


@pytest.mark.parametrize("late", [True, False], ids=["letter", "record"])
def test_a_late_delete_is_remembered_as_long_as_any_other(tmp_path: Path, late: bool) -> None:
    """It was a duplicate, because the table remembered a newer delete, which was read long before."""
    table = LateKeys.at(tmp_path, **BY_TIME)
    table.now -= timedelta(days=6)
    table.send(("a", 1, 1), ("a", None, 9))
    table.batch()
    table.later(days=6)
    table.send(("b", 1, 1), ("a", 5, 5), late=late)
    table.batch()
    table.send(("a", None, 7))
    table.batch()
    table.later(days=1.25)
    table.send(("a", 6, 6))
    table.batch()
    table.fix()
    table.replay()

    assert [key for key, *_ in table.stored()] == ["b"]
    assert table.against_kafka().findings == ()
