"""Which rows of a compacted topic a rebuild could lose: it is refused then (docs/decisions/0043)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from change_streams import ChangeStream
from changelogs import NAMES, Changelog
from keys_with_schemas import KeysWithSchemas
from rebuilt_tables import (
    FIELDS,
    SMALL,
    KilledError,
    appended,
    check_as_new,
    killed_at,
    letters,
    of_mode,
    rebuild,
    rewind,
    rows,
    stands,
)

from frazil.dead_letters import DeadLetter, list_dead_letters
from frazil.materialize.rebuild import perform
from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.model.change_events import ChangeEvents
from frazil.model.errors import RecordsLostError
from frazil.model.progress import Counts
from frazil.model.spec import StartOffsets
from tests.fakes.debezium_samples import order, postgres

NO_LONG = cast(int, 2.5)


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    """A table that follows keys, whose values are whole numbers."""
    made = Changelog.at(tmp_path)
    of_mode("upsert", made)
    made.spec = replace(made.spec, value_settings=FIELDS)
    return made


def sent(log: Changelog, *records: tuple[str | None, int | None]) -> None:
    log.send(*records)
    log.catch_up()


@pytest.mark.parametrize("on_bad_record", ["dead_letter", "skip"])
def test_a_row_whose_key_has_a_newer_record_that_is_no_row_is_not_lost(
    log: Changelog, on_bad_record: Literal["dead_letter", "skip"]
) -> None:
    log.spec = replace(log.spec, on_bad_record=on_bad_record)
    sent(log, ("a", 1), ("b", 1), ("a", NO_LONG), ("c", 1))
    log.compact(tombstones=True)

    with pytest.raises(RecordsLostError, match=r"made of 4 records .* Kafka has 3 of them") as refused:
        rebuild(log).perform()

    found = {"dead_letter": "1 dead letter (wrong_type) at offset 2", "skip": "1 record skipped (wrong_type)"}
    assert f"the newest record of its key is one of these: {found[on_bad_record]}. Readers" in refused.value.what
    assert "write a newer record of each of their keys" in refused.value.hint
    assert log.rows() == {"a": 0, "b": 1, "c": 3}


def test_a_newer_record_of_the_key_makes_the_rebuild_possible(log: Changelog) -> None:
    sent(log, ("a", 1), ("b", 1), ("a", NO_LONG), ("a", 2), ("b", 2))
    log.world.gone |= {0, 1}

    rebuild(log).perform()

    check_as_new(log)
    assert (log.rows(), letters(log)) == ({"a": 3, "b": 4}, [2])


def test_a_spec_that_makes_rows_of_the_dead_letters_makes_the_rebuild_possible(log: Changelog) -> None:
    sent(log, ("a", 1), ("b", 1), ("a", NO_LONG), ("c", 1))
    log.compact(tombstones=True)
    log.spec = replace(log.spec, value_settings=replace(FIELDS, fields=json.dumps({"n": "double"})))

    rebuild(log).perform()

    check_as_new(log)
    assert log.rows() == log.state == {"a": 2, "b": 1, "c": 3}


def test_a_record_without_an_identity_and_a_delete_lose_no_row(log: Changelog) -> None:
    sent(log, ("a", 1), ("b", 1), (None, 4), ("b", 2), ("a", None))
    log.compact(tombstones=True)

    rebuild(log).perform()

    check_as_new(log)
    assert (log.rows(), letters(log)) == ({"b": 3}, [2])


def test_a_dead_letter_without_a_key_stays_though_compaction_removed_its_record(log: Changelog) -> None:
    """No newer record takes its place."""
    sent(log, ("a", 1), (None, 4), ("b", 1), ("a", 2), (None, 5))
    log.world.gone |= {0, 1}
    before = stored_letters(log)

    for _ in range(2):
        (receipt,) = rebuild(log).perform()

        assert receipt.counts == Counts(read=4, rows=2, dead_letters=2)
        assert (log.rows(), stored_letters(log)[0]) == ({"a": 3, "b": 2}, before[0])
        assert [letter.offset for letter in stored_letters(log)] == [1, 4]
        assert (log.verify().findings, log.against_kafka().findings) == ((), ())
    log.world.gone.add(4)
    log.spec = replace(log.spec, on_bad_record="skip")
    rebuild(log).perform()
    assert letters(log) == []


def stored_letters(log: Changelog) -> Sequence[DeadLetter]:
    found = list_dead_letters(log.world.lake, log.spec, limit=9).newest
    return sorted(found, key=lambda letter: letter.offset)


def test_many_dead_letters_are_counted_and_the_first_named(log: Changelog) -> None:
    sent(log, ("a", 1), *((key, NO_LONG) for key in "abcdefg"))
    log.compact(tombstones=True)

    with pytest.raises(RecordsLostError, match=r"7 dead letters \(wrong_type\) at the offsets 1, 2, 3, 4, 5, …\. R"):
        rebuild(log).perform()


def test_a_soft_delete_whose_records_compaction_removed_is_not_lost(tmp_path: Path) -> None:
    stream: Any = ChangeStream.at(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.send(1, postgres("c", after=order(1)))
    stream.send(2, postgres("c", after=order(2)))
    stream.send(1, None)
    stream.catch_up()
    stream.world.gone |= {0, 2}  # the tombstone is gone after `delete.retention.ms`

    with pytest.raises(RecordsLostError, match="a record without a value, which deletes no row here, may be all"):
        rebuild(stream).perform()

    assert stream.rows("kafka_offset") == [(0,), (1,)]


def test_a_key_is_not_undeleted_because_its_delete_had_another_schema(tmp_path: Path) -> None:
    log = KeysWithSchemas.at(tmp_path).changelog
    log.send((None, 1))
    log.catch_up()
    before = stored(log)
    log.world.gone |= {0, 3}  # to Kafka, the delete at offset 3 is of another key than the record at offset 1

    with pytest.raises(RecordsLostError, match=r"1 key would have a row that the table does not have, of offset 1"):
        rebuild(log).perform()
    log.spec = replace(log.spec, metadata=replace(log.spec.metadata, prefix="k_"))
    with pytest.raises(RecordsLostError, match="1 key would have a row"):
        rebuild(log).perform()

    assert stored(log) == before == [2, 4]


@pytest.mark.parametrize("days", [0.9, 1.1])
def test_a_rebuild_by_another_spec_takes_no_longer_than_kafka_keeps_deletes(log: Changelog, days: float) -> None:
    """It has read the row of a key before Kafka removed the record, and then its delete."""
    log.spec = replace(log.spec, trigger=SMALL)
    sent(log, ("k", 1), ("y", 1), ("z", 1), ("z", 2), ("k", None), ("y", 3), ("x", 1))
    log.spec = replace(log.spec, value_settings=replace(FIELDS, fields=json.dumps({"n": "long", "m": "long"})))

    def die(progress: RebuildProgress) -> None:
        raise KilledError

    with suppress(KilledError):
        rebuild(log, report=die).perform()
    log.world.gone |= {1, 2} if days < 1 else {0, 1, 2, 4}
    act = rebuild(log)
    act.clients = replace(act.clients, now=lambda: datetime.now(UTC) + timedelta(days=days))

    if days < 1:
        act.perform()
        assert log.rows() == log.state
        return
    with pytest.raises(RecordsLostError, match="after a day, a delete may be gone of a key whose row was read") as lost:
        act.perform()

    assert "frazil rebuild --discard" in lost.value.hint
    assert log.rows() == log.state


def test_a_rebuild_takes_out_the_row_of_a_deleted_key(log: Changelog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewind of an earlier release brought such rows back."""
    sent(log, ("a", 1), ("b", 1), ("c", 1), ("a", None), ("d", 2))
    log.compact(tombstones=True)
    with monkeypatch.context() as earlier:
        earlier.setattr(perform, "check_complete", lambda *given, **more: None)
        rewind(log, ToOffsets({"orders": {0: 3}})).perform()
    assert "a" in log.rows()
    log.send(("b", 2))
    log.catch_up()
    log.world.gone.add(1)

    rebuild(log).perform()

    check_as_new(log)
    assert log.rows() == log.state


def stored(log: Changelog) -> list[int]:
    return [row["kafka_offset"] for row in rows(log, log.spec)]


@pytest.mark.parametrize("kept", [False, True], ids=["compacted", "not compacted"])
def test_a_later_start_does_not_hide_that_records_are_gone(tmp_path: Path, kept: bool) -> None:
    log = appended(tmp_path)
    log.world.gone |= {0, 3} - ({3} if kept else set())
    log.world.earliest = 2
    log.spec = replace(log.spec, start=StartOffsets({0: 2}))

    if kept:
        rebuild(log).perform()
        check_as_new(log)
        return
    with pytest.raises(
        RecordsLostError, match=r"1 offset of \[2, 8\) of orders-0 has no record in Kafka, and .* 0 had"
    ):
        rebuild(log).perform()


@pytest.mark.parametrize(
    ("gone", "dies"),
    [(set(), False), ({1}, False), ({5}, False), ({5}, True)],
    ids=["not compacted", "before the table", "in the table", "in the table, by several processes"],
)
def test_an_earlier_start_does_not_hide_that_records_are_gone(tmp_path: Path, gone: set[int], dies: bool) -> None:
    log = appended(tmp_path)
    first, log.spec = log.spec, replace(log.spec, table=f"t{next(NAMES)}", start=StartOffsets({0: 3}))
    log.catch_up()
    log.world.gone |= gone
    log.spec = replace(log.spec, start=first.start)
    for number in (5, 6, 4) if dies else ():
        with suppress(KilledError, RecordsLostError), killed_at(log, number, after=True):
            rebuild(log).perform()
        loaded = log.world.lake.catalog.load_table(log.spec.identifier)
        loaded.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()

    if gone != {5}:
        rebuild(log).perform()
        check_as_new(log)
        return
    said = r"made of 5 records of orders-0 from offset 3 up to offset 8, and Kafka has 4 of them"
    for _ in range(2):  # also a process that finds all of it read
        with pytest.raises(RecordsLostError, match=said):
            rebuild(log).perform()
    assert stored(log) == [3, 4, 5, 6, 7]


def test_a_dead_letter_without_a_key_that_the_changed_spec_skips_is_counted_once(log: Changelog) -> None:
    sent(log, ("a", 1), (None, None), ("b", 1), ("a", 2))
    assert letters(log) == [1]
    log.world.gone |= {0}
    log.spec = replace(log.spec, on_tombstone="skip")

    rebuild(log).perform()

    assert stands(log).state.total() == Counts(read=3, rows=2, skipped=1)
    assert letters(log) == []


@pytest.mark.parametrize(
    ("more", "retention", "rebuilds"),
    [([], False, True), ([("x", NO_LONG)], False, False), ([], True, False)],
    ids=["it works", "a dead letter", "retention"],
)
def test_a_refused_rewind_names_the_rebuild_where_that_works(
    log: Changelog, more: list[tuple[str, int]], retention: bool, rebuilds: bool
) -> None:
    sent(log, ("a", 1), ("b", 1), ("c", 1), *more, ("a", None), ("d", 2), ("e", 2))
    log.compact(tombstones=True)
    log.world.earliest = 1 if retention else 0

    with pytest.raises(RecordsLostError, match="compaction removed the others") as refused:
        rewind(log, ToOffsets({"orders": {0: 3}})).perform()

    command = f"`frazil rebuild {log.spec.identifier}`"
    assert (command in refused.value.hint) == rebuilds
    assert ("into another `table`" in refused.value.hint) != rebuilds
