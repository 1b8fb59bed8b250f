"""Tables that follow keys against topics that were compacted: what is unchecked is counted, and no damage is missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa
import pytest
from changelogs import SENT, Changelog, Sent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys_with_schemas import KeysWithSchemas
from rebuilt_tables import FIELDS, of_mode, rewind
from test_verify_keyed import kafka, made, with_values, without
from values_of_tables import SPEC

from frazil.materialize.rebuild import perform
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.proof.verification import FindingKind
from frazil.verify import by_identity
from tests.sampling import examples

BAD = cast(int, 2.5)
"""No whole number."""
PROVEN = "the table's sums prove that they were read, and Kafka has compacted them since"
OnBadRecord = Literal["dead_letter", "skip"]


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    """A table that follows keys, whose values are whole numbers."""
    return whole_numbers(tmp_path)


def whole_numbers(folder: Path, on_bad_record: OnBadRecord = "dead_letter") -> Changelog:
    log = Changelog.at(folder)
    of_mode("upsert", log)
    log.spec = replace(log.spec, value_settings=FIELDS, on_bad_record=on_bad_record)
    return log


def sent(log: Changelog, *records: Sent) -> None:
    log.send(*records)
    log.catch_up()


@pytest.mark.parametrize("on_bad_record", ["dead_letter", "skip"])
def test_a_key_whose_newest_record_is_no_row_is_counted_as_unchecked(
    tmp_path: Path, on_bad_record: OnBadRecord
) -> None:
    log = whole_numbers(tmp_path, on_bad_record)
    sent(log, ("a", 1), ("b", 1), ("a", BAD), ("c", 1), ("c", 2), ("b", BAD))
    log.compact(tombstones=True)

    verification = log.against_kafka()

    assert verification.findings == ()
    assert verification.notes == (
        f"orders-0: unchecked: 2 keys with a row whose record Kafka no longer has: offsets 0, 1; {PROVEN}",
    )


def test_a_key_whose_newer_record_is_not_read_yet_is_counted_as_unchecked(log: Changelog) -> None:
    sent(log, ("a", 1), ("b", 1))
    log.send(("a", None))
    log.compact(tombstones=True)

    verification = log.against_kafka()

    assert verification.findings == ()
    assert verification.notes == (
        f"orders-0: unchecked: 1 key with a row whose record Kafka no longer has: offset 0; {PROVEN}",
    )


def test_a_dead_letter_without_a_record_is_no_unchecked_key(log: Changelog) -> None:
    sent(log, ("a", BAD), ("a", 1))
    log.compact(tombstones=True)

    verification = log.against_kafka()

    assert verification.findings == ()
    assert verification.notes == ("orders-0: 1 dead letter without a record in Kafka: offset 0",)


def test_the_row_of_a_deleted_key_is_named_if_the_delete_is_gone_from_kafka_too(
    log: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rewind of an earlier release brought such rows back."""
    sent(log, ("a", 1), ("b", 1), ("c", 1), ("a", None), ("d", 2))
    log.compact(tombstones=True)
    with monkeypatch.context() as earlier:
        earlier.setattr(perform, "check_complete", lambda *given, **more: None)
        rewind(log, ToOffsets({"orders": {0: 3}})).perform()
    assert "a" in log.rows()

    assert kafka(log) == [
        (
            FindingKind.DELETED_KEY,
            "orders-0: 1 row without a record in Kafka: offset 0; compaction keeps the newest record of each key in the"
            " partition unless it deletes the key, and all records of it that the table has read are rows or deletes",
        )
    ]

    log.send(("x", 1))
    assert (kafka(log), len(log.against_kafka().notes)) == ([], 1)  # a newer record may have been compacted, too


def test_a_delete_with_another_schema_of_the_key_explains_a_record_that_kafka_kept(tmp_path: Path) -> None:
    log = KeysWithSchemas.at(tmp_path).changelog
    log.world.gone |= {0, 3}  # to Kafka, the delete at offset 3 is of another key than the record at offset 1

    verification = log.against_kafka()

    assert verification.findings == ()
    assert any("deletes that Kafka does not have any more explain the number" in note for note in verification.notes)
    log.replace_rows(lambda rows: rows.slice(0, 1))
    both = "removals by other writers and deletes that Kafka does not have any more explain the number"
    assert any(both in note for note in log.against_kafka().notes)


def test_a_stale_row_is_named_and_not_unchecked(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    sent(log, ("a", 1), ("b", 1), ("a", 2))
    log.compact(tombstones=True)
    log.replace_rows(lambda rows: pa.concat_tables([without(rows, "a"), made(rows, "a", 0, 1)]))

    verification = log.against_kafka()

    assert [kind for kind, _ in kafka(log)] == [FindingKind.STALE_ROW]
    assert not [note for note in verification.notes if "unchecked" in note]


@pytest.mark.parametrize("others", [1, 2])
def test_records_that_are_no_rows_explain_as_many_rows_of_deleted_keys(
    log: Changelog, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    sent(log, ("a", 1), ("b", 1), ("c", 1), *((key, None) for key in "ab"), *((key, BAD) for key in "xyz"[:others]))
    log.compact(tombstones=True)
    monkeypatch.setattr(perform, "check_complete", lambda *given, **more: None)
    rewind(log, ToOffsets({"orders": {0: 3}})).perform()

    found = [what for kind, what in kafka(log) if kind is FindingKind.DELETED_KEY]

    assert len(found) == (others < 2)
    assert all("of those that the table has read of it, only 1 is neither row nor delete" in what for what in found)


@pytest.mark.parametrize("gone", [True, False], ids=["compacted", "whole"])
def test_an_earlier_delete_with_a_later_time_explains_where_the_row_of_a_history_ends(
    tmp_path: Path, gone: bool
) -> None:
    log = Changelog.at(tmp_path, write="history")
    log.world.times |= {0: 1, 1: 8, 2: 3}
    sent(log, ("a", 1), ("a", None), ("a", None))
    if gone:
        log.compact(tombstones=False)

    verification = log.against_kafka()

    assert verification.findings == ()
    assert len([note for note in verification.notes if "may end at other records" in note]) == gone


def test_a_row_of_a_history_that_ends_after_its_delete_is_named(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, write="history")
    log.world.times |= {0: 1, 1: 8, 2: 3}
    sent(log, ("a", 1), ("a", None), ("a", None))
    later = pa.scalar(9_000, pa.timestamp("us", "UTC")).as_py()
    log.replace_rows(lambda rows: with_values(rows, "a", valid_to=later))

    late = "orders-0@0: valid_to is after the next record of the key in Kafka"
    assert kafka(log) == [(FindingKind.WRONG_INTERVAL, late)]


RECORDS = st.tuples(SENT.map(lambda each: each[0]), st.integers(0, 9) | st.none() | st.just(BAD))
STEPS = st.lists(st.lists(RECORDS, min_size=1, max_size=6) | st.sampled_from(["read", "compact", "expire"]), max_size=8)


@settings(max_examples=examples(3, 500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, most=st.sampled_from([2, 100]), on_bad_record=st.sampled_from(["dead_letter", "skip"]))
def test_any_history_with_records_that_are_no_rows_is_clean(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[list[Sent] | str],
    most: int,
    on_bad_record: OnBadRecord,
) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", most)
    log = whole_numbers(tmp_path, on_bad_record)
    log.spec = replace(log.spec, trigger=SPEC.trigger)
    log.catch_up()
    for step in [*steps, "read"]:
        if isinstance(step, list):
            log.send(*step)
        elif step == "read":
            log.catch_up()
        elif step == "expire":
            log.world.earliest = log.next_offset
        else:
            log.compact(tombstones=len(log.world.values) % 2 == 0)
        assert log.against_kafka().findings == ()
