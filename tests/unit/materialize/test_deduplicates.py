"""Tables with the first record of each identity: whole batches, held against a model in plain Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deduplicated import EVENT, Duplicates, Event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rebuilt_tables import rebuild

from frazil.model.errors import SpecChangeError, SpecError
from frazil.model.ingested import DeletedRows
from frazil.model.spec import MetadataColumns
from frazil.proof.verification import FindingKind
from frazil.verify import by_identity
from tests.sampling import examples


@pytest.fixture
def events(tmp_path: Path) -> Duplicates:
    return Duplicates.at(tmp_path)


def test_the_first_record_of_an_identity_is_its_row_for_ever(events: Duplicates) -> None:
    events.send_events(("a", 5, 0), ("b", 5, 0))
    events.catch_up()
    events.send_events(("a", 1, 0), ("c", 9, 0), ("a", 1, 1))
    events.catch_up()

    events.check()
    assert events.records() == {"a": (5, 0, 0), "b": (5, 0, 1), "c": (9, 0, 3)}


def test_a_rebuild_may_keep_another_record_of_an_identity(events: Duplicates) -> None:
    """Its batches are others: one of them may have records that were in several."""
    for event in (("a", 5, 0), ("a", 3, 1), ("b", 4, 1)):
        events.send_events(event)
        events.catch_up()
    events.check()
    assert events.records() == {"a": (5, 0, 0), "b": (4, 1, 1)}

    rebuild(events).perform()

    assert events.records() == {"a": (3, 1, 0), "b": (4, 1, 1)}
    assert (events.verify().findings, events.against_kafka().findings) == ((), ())


def test_within_a_batch_the_least_timestamp_partition_and_offset_is_first(events: Duplicates) -> None:
    events.send_events(("a", 5, 0), ("a", 4, 1), ("a", 4, 1), ("b", 4, 1), ("b", 4, 0))
    events.catch_up()

    events.check()
    assert events.records() == {"a": (4, 1, 0), "b": (4, 0, 1)}


def test_a_batch_is_one_snapshot_without_rows_of_duplicates(events: Duplicates) -> None:
    events.send_events(("a", 1, 0), ("a", 2, 0), ("b", 3, 0))
    events.catch_up()

    head = events.view.head_snapshot()
    assert head is not None
    assert (head.figure("added-records"), head.figure("added-position-deletes")) == (3, 1)


def test_a_file_of_duplicates_is_not_added(events: Duplicates) -> None:
    events.send_events(("a", 1, 0))
    events.catch_up()
    events.send_events(("a", 2, 0), ("a", 3, 1))
    events.catch_up()

    events.check()
    assert [file.rows for file in events.files()] == [1]


def test_an_identity_whose_row_is_deleted_is_forgotten(events: Duplicates) -> None:
    events.send_events(("a", 1, 0), ("b", 1, 0))
    events.catch_up()
    (file,) = events.files()
    events.others(deletes=[DeletedRows(file.path, [0])])
    del events.first["a"]
    events.send_events(("a", 2, 0), ("b", 2, 0))
    events.catch_up()

    events.check()
    assert events.records()["a"] == (2, 0, 2)


def test_partitions_may_be_added(events: Duplicates) -> None:
    events.send_events(("a", 1, 0))
    events.catch_up()
    events.partitions.records[2] = []
    events.send_events(("a", 2, 2), ("b", 2, 2))
    events.catch_up()

    events.check()


def test_a_record_without_a_value_is_a_dead_letter_or_skipped(tmp_path: Path) -> None:
    for on_tombstone, figure in (("dead_letter", "dead_letters"), ("skip", "skipped")):
        events = Duplicates.at(tmp_path, on_tombstone=on_tombstone)
        events.put(None)
        events.send_events(("a", 1, 0))
        events.catch_up()

        verification = events.against_kafka()
        assert verification.findings == ()
        assert getattr(verification.counts, figure) == 1


def test_with_the_key_as_the_identity_a_record_without_a_value_is_like_another(tmp_path: Path) -> None:
    events = Duplicates.at(tmp_path, identity=(), on_tombstone="row")
    events.put(None)
    events.put({"id": "a"})
    events.catch_up()

    verification = events.against_kafka()
    assert verification.findings == ()
    assert (verification.counts.rows, verification.counts.duplicates) == (1, 1)


def test_several_columns_may_be_the_identity_also_of_the_metadata(tmp_path: Path) -> None:
    events = Duplicates.at(tmp_path, identity=("n", "kafka_partition"))
    for n, partition in ((1, 0), (1, 1), (2, 0), (1, 0), (2, 0)):
        events.put({"n": n, "id": "x"}, partition=partition)
    events.catch_up()

    verification = events.against_kafka()
    assert verification.findings == ()
    assert (verification.counts.rows, verification.counts.duplicates) == (3, 2)


def test_the_table_is_compared_with_kafka_in_bounded_memory(
    events: Duplicates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", 2)
    for stamp in (3, 2, 1):
        events.send_events(*((event, stamp, partition) for event in "abcdef" for partition in (0, 1)))
        events.catch_up()

    verification = events.against_kafka()

    assert (verification.findings, verification.notes) == ((), ())
    assert "30 are duplicates" in str(verification.checks[-1])


def test_a_lost_identity_is_named(events: Duplicates) -> None:
    events.send_events(("a", 1, 0), ("b", 1, 0))
    events.catch_up()
    events.send_events(("a", 2, 0))
    events.catch_up()
    events.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["id"], "a")))

    notes = events.against_kafka().notes
    assert any("the row of 1 key, whose newest records in Kafka are offset 2" in note for note in notes)


@pytest.mark.parametrize("removed", [1, 2])
def test_rows_that_others_removed_explain_duplicates_in_any_partition(events: Duplicates, removed: int) -> None:
    events.send_events(("a", 1, 0), ("b", 1, 0), ("c", 1, 0))
    events.catch_up()
    events.send_events(("a", 2, 0), ("a", 2, 1), ("b", 3, 1))
    events.catch_up()
    (file,) = events.files()
    events.others(deletes=[DeletedRows(file.path, [*range(removed)])])

    verification = events.against_kafka()

    assert verification.findings == ()
    assert any("whose newest records in Kafka are" in note for note in verification.notes)


def test_a_changed_identity_is_named(events: Duplicates) -> None:
    events.send_events(("a", 1, 0))
    events.catch_up()
    events.replace_rows(lambda rows: rows.set_column(rows.schema.get_field_index("id"), "id", pa.array(["x"])))

    assert [found.kind for found in events.verify().findings] == [FindingKind.CHANGED_IDENTITY]


def test_an_identity_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    keep = MetadataColumns(keep=(*MetadataColumns().keep, "headers"))
    for identity, problem in (
        (("m",), "a column that the table does not have"),
        (("n", "kafka_headers"), "equal value"),
    ):
        events = Duplicates.at(tmp_path, identity=identity, metadata=keep)
        with pytest.raises(SpecError, match=problem):
            events.catch_up()


def test_another_identity_is_refused(events: Duplicates) -> None:
    events.send_events(("a", 1, 0))
    events.catch_up()
    events.spec = replace(events.spec, identity=("n",))

    with pytest.raises(SpecChangeError, match="would have another one"):
        events.catch_up()


@settings(max_examples=examples(4, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(EVENT, min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_events_in_any_batches_are_the_model(tmp_path: Path, batches: list[list[Event]]) -> None:
    events = Duplicates.at(tmp_path)
    for batch in batches:
        events.send_events(*batch)
        events.catch_up()

    events.check()
    assert events.against_kafka().findings == ()


@pytest.mark.parametrize("order_by", ["kafka_timestamp", "n"])
def test_the_newest_record_of_columns_is_the_row_of_an_upsert(tmp_path: Path, order_by: str) -> None:
    events = Duplicates.at(tmp_path, write="upsert", order_by=order_by)
    for batch in (
        [("a", 5, 0), ("b", 3, 1), ("a", 4, 1)],
        [("a", 2, 0), ("b", 9, 0), ("c", 1, 0), ("b", 8, 1)],
    ):
        for event, number, partition in batch:
            events.put({"id": event, "n": number}, stamp=number, partition=partition)
        events.put(None, stamp=99)
        events.catch_up()

    verification = events.against_kafka()

    assert (verification.findings, verification.notes) == ((), ())
    assert events.records() == {"a": (5, 0, 0), "b": (9, 0, 3), "c": (1, 0, 4)}
    counts = verification.counts
    assert (counts.rows, counts.duplicates, counts.dead_letters) == (6, 1, 2)


@pytest.mark.parametrize("order_by", ["kafka_timestamp", "n"])
def test_a_stale_row_of_columns_is_named(tmp_path: Path, order_by: str) -> None:
    events = Duplicates.at(tmp_path, write="upsert", order_by=order_by)
    for number in (1, 2):
        events.put({"id": "a", "n": number}, stamp=number)
        if number == 1:
            events.catch_up()
    old = events.world.lake.catalog.load_table(events.spec.identifier).scan().to_arrow()
    events.catch_up()
    events.replace_rows(lambda rows: old.cast(rows.schema))

    assert FindingKind.STALE_ROW in {found.kind for found in events.against_kafka().findings}
