"""Erasures from tables that follow keys: a key goes with all versions of its row, and later records begin anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from changelogs import SENT, Changelog, Sent
from deduplicated import Duplicates
from erased_tables import erase
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_letters import BY_TIME, KEY, KEY_ID, LateKeys
from ordered_changelogs import OrderedChangelog
from rebuilt_tables import rebuild
from whole_batches import framed

from frazil.forget.perform import Erased
from frazil.materialize.outcome import Again
from frazil.materialize.state import standing
from frazil.proof.verification import FindingKind
from tests.sampling import examples


def forgotten(log: Changelog) -> int:
    sources = standing(log.view, pipeline=log.spec.pipeline).state.sources
    return sum(each.forgotten for source in sources for each in source.partitions.values())


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    """Two versions of `ann` and `bob`, the earlier ones deleted by positions, and `cid`, who was deleted."""
    made = Changelog.at(tmp_path)
    made.send(("ann", 1), ("bob", 1), ("cid", 1))
    made.catch_up()
    made.send(("ann", 2), ("bob", 2), ("cid", None))
    made.catch_up()
    return made


def test_a_key_goes_with_the_earlier_versions_of_its_row(log: Changelog) -> None:
    done = erase(log, "ann")

    del log.state["ann"]
    assert (done.rows, done.is_complete, forgotten(log)) == (1, True, 1)
    log.check()
    verification = log.against_kafka()
    assert verification.findings == ()
    why = ": the rows that `frazil forget` or `retain_rows` took out, by the sums of their offsets"
    assert any(why in note for note in verification.notes)


@pytest.mark.parametrize("order", [{}, BY_TIME], ids=["offset", "time"])
def test_an_older_dead_letter_does_not_take_the_place_of_an_erased_row(tmp_path: Path, order: dict[str, str]) -> None:
    log = LateKeys.at(tmp_path, **order)
    log.send(("ann", 1, 1), late=True)
    log.send(("ann", 2, 2), ("bob", 5, 2))
    log.catch_up()
    erase(log, "2", "n")
    log.fix()

    result = log.replay()

    assert (result.replayed, dict(result.stayed)) == (0, {"order_unknown": 1})
    assert [key for key, *_ in log.stored()] == ["bob"]


def test_an_older_dead_letter_stays_after_a_rebuild_that_lacks_the_erased_record(tmp_path: Path) -> None:
    """The newest record of the key is a dead letter, so compaction has removed the record of the row."""
    log = LateKeys.at(tmp_path)
    log.send(("ann", 1, 1), late=True)
    log.send(("ann", 2, 1), ("bob", 5, 1))
    log.world.records[0].append((framed(KEY_ID, KEY, {"id": "ann"}), b"broken", 1))
    log.catch_up()
    erase(log, "2", "n")
    log.world.compacted.add((0, 1))
    rebuild(cast(Any, log)).perform()
    log.fix()
    log.catch_up()

    result = log.replay()

    assert (result.replayed, result.stayed["order_unknown"]) == (0, 1)
    assert [key for key, *_ in log.stored()] == ["bob"]


def test_a_row_is_erased_beside_days_after_the_year_9999(tmp_path: Path) -> None:
    """A producer that sends microseconds as milliseconds makes such days."""
    log = LateKeys.at(tmp_path, write="append", on_tombstone="row", partition_by=("day(kafka_timestamp)",))
    log.send(("ann", 1, 1), ("bob", 2, 1_772_366_400_000_000))
    log.catch_up()

    done = erase(log, "1", "n")

    assert done.rows == 1
    assert [key for key, *_ in log.stored()] == ["bob"]


def test_a_deleted_row_goes_with_its_file(log: Changelog) -> None:
    done = erase(log, "cid")

    assert (done.rows, done.is_complete, forgotten(log)) == (0, True, 0)
    log.check()


def test_later_records_of_the_key_begin_anew(log: Changelog) -> None:
    erase(log, "ann")
    del log.state["ann"]

    log.send(("ann", 3), ("bob", 3), ("ann", 4))
    log.catch_up()

    log.check()
    assert log.against_kafka().findings == ()


def test_a_lost_key_is_still_found(log: Changelog) -> None:
    erase(log, "ann")
    path = Path(log.files()[0].path.removeprefix("file://"))
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pa.compute.not_equal(rows["kafka_key"], "bob")), path)

    assert FindingKind.LOST_ROWS in {finding.kind for finding in log.verify().findings}
    assert FindingKind.LOST_KEY in {finding.kind for finding in log.against_kafka().findings}


@pytest.mark.parametrize("step", ["ingest", "stage", "publish"])
def test_a_batch_under_way_is_planned_again(log: Changelog, step: str) -> None:
    log.send(("bob", 3), ("dan", 1))
    table = log.world.table(log.spec)
    begun: list[Erased] = []

    def observe(when: str, name: str) -> None:
        if (when, name) == ("before", step) and not begun:
            begun.append(erase(log, "ann"))

    table.clients = replace(table.clients, observe=observe)

    assert isinstance(table.batch(), Again)
    log.catch_up()
    del log.state["ann"]
    log.check()


@given(steps=st.lists(st.lists(SENT, min_size=1, max_size=6) | st.sampled_from("abcde"), min_size=2, max_size=6))
@settings(max_examples=examples(3, 60), deadline=None)
def test_any_records_and_erasures_leave_the_rows_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Sent] | str]
) -> None:
    log = Changelog.at(tmp_path_factory.mktemp("log"))
    log.send(("a", 0), ("b", 0))
    log.catch_up()

    for step in steps:
        if isinstance(step, str):
            erase(log, step)
            log.state.pop(step, None)
        else:
            log.send(*((key or "e", value) for key, value in step))
            log.catch_up()
        log.check()

    assert log.against_kafka().findings == ()


def test_the_deletes_that_a_table_remembers_stay(tmp_path: Path) -> None:
    log = OrderedChangelog.at(tmp_path)
    log.send_at(("a", 1, 5, 0), ("b", 1, 5, 1), ("d", 1, 5, 1))
    log.catch_up()
    log.send_at(("b", None, 9, 1))
    log.catch_up()

    done = erase(log, "a")

    remembered = standing(log.view, pipeline=log.spec.pipeline).state.remembered
    statistics = {each.snapshot_id: each.statistics_path for each in log.view.current.metadata.statistics}
    assert remembered is not None
    assert statistics[log.view.head or 0] == remembered.file.path, "an expiry deletes the files of other snapshots"
    del log.live["a"]
    assert (done.rows, done.is_complete, forgotten(log)) == (1, True, 1)
    log.check()
    log.send_at(("b", 2, 7, 0))  # older than the delete
    log.catch_up()
    log.check()


def test_the_first_record_of_an_id_is_erased(tmp_path: Path) -> None:
    log = Duplicates.at(tmp_path)
    for each in ("ann", "bob", "ann"):
        log.put({"id": each, "n": 1})
    log.catch_up()

    done = erase(log, "ann", "id")

    assert (done.rows, done.is_complete, forgotten(log)) == (1, True, 1)
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


def test_keys_without_a_row_that_only_their_number_explains_are_unchecked(tmp_path: Path) -> None:
    """Kafka lacks the record of an erased row, so a key that was really lost could take its place."""
    log = Duplicates.at(tmp_path)
    for each in ("ann", "bob", "cid"):
        log.put({"id": each, "n": 1})
    log.catch_up()
    erase(log, "ann", "id")
    erase(log, "bob", "id")
    assert not any("unchecked" in note for note in log.against_kafka().notes)

    log.partitions.compacted.add((0, 0))

    verification = log.against_kafka()
    assert verification.findings == ()
    assert any("the row of 1 key" in note and "unchecked: they may be others" in note for note in verification.notes)
    assert "1 is unchecked" in next(check.says for check in verification.checks if check.name == "kafka")


def test_a_key_that_came_back_leaves_another_without_a_row_unchecked(log: Changelog) -> None:
    """As many keys lack a row as one was erased, but that one has a row again."""
    erase(log, "ann")
    log.send(("ann", 9))
    log.catch_up()
    log.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["kafka_key"], "bob")))

    verification = log.against_kafka()

    assert verification.findings == ()
    assert any("the row of 1 key" in note and "unchecked: they may be others" in note for note in verification.notes)
