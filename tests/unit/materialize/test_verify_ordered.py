"""The proof of tables that a column orders: compared with Kafka, keys may be in several partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_letters import BY_TIME, LateKeys
from ordered_changelogs import STAMPED, OrderedChangelog, Stamped
from test_verify_keyed import kafka, with_values

from frazil.materialize.state import standing
from frazil.proof.verification import FindingKind
from frazil.verify import by_identity
from tests.sampling import examples


@pytest.fixture(params=[2, 8_000_000])
def changelog(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OrderedChangelog:
    """Rows of a (partition 1, offset 0) and b (0, 1); c was deleted by the record (1, 1)."""
    monkeypatch.setattr(by_identity, "MOST_HELD", request.param)
    made = OrderedChangelog.at(tmp_path)
    made.send_at(("a", 1, 5, 0), ("a", 2, 8, 1), ("b", 1, 6, 0))
    made.catch_up()
    made.send_at(("c", 1, 5, 0), ("c", None, 9, 1), ("a", 3, 7, 0), ("c", 2, 8, 0))
    made.catch_up()
    return made


def at(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def test_a_table_is_what_kafka_says(changelog: OrderedChangelog) -> None:
    verification = changelog.against_kafka()

    assert (verification.findings, verification.notes) == ((), ())


def test_a_lost_key_is_named_at_its_newest_record(changelog: OrderedChangelog) -> None:
    changelog.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["kafka_key"], "a")))
    found = changelog.against_kafka()

    assert any("the row of 1 key, whose newest records in Kafka are offset 0" in note for note in found.notes)


def test_a_stale_row_of_another_partition_is_named(changelog: OrderedChangelog) -> None:
    """The row is that of partition 0 at offset 3, whose record is not the newest: (1, 0) is."""
    older = {"kafka_partition": 0, "kafka_offset": 3, "kafka_timestamp": at(7), "value": '{"n": 3}'}
    changelog.replace_rows(lambda rows: with_values(rows, "a", **older))

    kinds = dict(kafka(changelog))
    assert kinds[FindingKind.STALE_ROW] == (
        "orders-1@0: the row of the record's key is from orders-0@3, and the record is newer"
    )


def test_a_key_that_came_back_after_its_delete_was_forgotten_is_named(changelog: OrderedChangelog) -> None:
    changelog.spec = replace(changelog.spec, delete_memory=timedelta(seconds=-1))
    changelog.send_at(("c", 4, 8, 0))
    changelog.catch_up()

    what = "orders-1@1: the row of the record's key is from orders-0@5, and the record deletes it"
    assert kafka(changelog) == [(FindingKind.DELETED_KEY, what)]


@pytest.mark.parametrize("late", ["record", "delete"])
def test_a_delete_that_compaction_removed_explains_a_lost_key(changelog: OrderedChangelog, late: str) -> None:
    """A late delete, which Kafka still has, was counted as a duplicate."""
    changelog.send_at(("b", None, 9, 1), ("a", None if late == "delete" else 4, 3, 1))
    changelog.catch_up()
    assert changelog.against_kafka().findings == ()
    changelog.partitions.compacted.add((1, 2))

    verification = changelog.against_kafka()

    assert verification.findings == ()
    assert any("the row of 1 key" in note and "deletes that Kafka does not" in note for note in verification.notes)


def test_a_skipped_delete_that_can_be_decoded_now_is_not_the_one_that_compaction_removed(tmp_path: Path) -> None:
    table = LateKeys.at(tmp_path, on_bad_record="skip", **BY_TIME)
    table.send(("b", 1, 2), ("z", 1, 1))
    table.send(("x", None, 5), partition=1, late=True)
    table.send(("b", None, 9), partition=1)
    table.catch_up()
    table.world.compacted.add((1, 1))
    table.fix()

    verification = table.against_kafka()

    assert verification.findings == ()
    assert any("the row of 1 key" in note and "deletes that Kafka does not" in note for note in verification.notes)


def test_skipped_records_that_are_gone_are_no_deletes(tmp_path: Path) -> None:
    """The table has counted none, so a key without a row has lost it."""
    changelog = OrderedChangelog.at(tmp_path, on_tombstone="skip")
    changelog.send_at(("a", 1, 1, 0), ("t", None, 2, 0), ("u", None, 3, 0), ("c", 1, 5, 0), ("b", 1, 6, 0))
    changelog.partitions.compacted.add((0, 3))  # as if it was never read
    changelog.catch_up()
    changelog.partitions.compacted.remove((0, 3))
    assert FindingKind.LOST_KEY in dict(kafka(changelog))

    changelog.partitions.compacted |= {(0, 1), (0, 2)}

    assert FindingKind.LOST_KEY in dict(kafka(changelog))


def test_a_removed_row_explains_no_key_that_came_back(changelog: OrderedChangelog) -> None:
    """No delete lost to the row that was removed: all were counted as deletes."""
    changelog.send_at(("x", 1, 1, 0))
    changelog.catch_up()
    changelog.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["kafka_key"], "x")))
    changelog.send_at(("x", None, 10, 0))
    changelog.partitions.compacted.add((0, 5))
    changelog.spec = replace(changelog.spec, delete_memory=timedelta(seconds=-1))
    changelog.send_at(("c", 4, 8, 0))
    changelog.catch_up()

    assert FindingKind.DELETED_KEY in dict(kafka(changelog))


def test_several_causes_together_explain_lost_keys(changelog: OrderedChangelog) -> None:
    """The newest record of the key that was removed is in another partition than its row was."""
    changelog.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["kafka_key"], "a")))
    changelog.send_at(("b", None, 9, 1))
    changelog.catch_up()
    changelog.partitions.compacted |= {(1, 2), (1, 0)}

    verification = changelog.against_kafka()

    assert verification.findings == ()
    (note,) = [each for each in verification.notes if "the row of" in each]
    assert "the row of 2 keys, whose newest records in Kafka are offsets 1, 3" in note
    assert "removals by other writers and deletes that Kafka does not have any more explain the number" in note


def test_a_late_record_is_the_row_of_a_key_whose_row_others_removed(changelog: OrderedChangelog) -> None:
    changelog.replace_rows(lambda rows: rows.filter(pc.not_equal(rows["kafka_key"], "b")))
    changelog.send_at(("b", 2, 5, 0))
    changelog.catch_up()
    assert changelog.records()["b"] == (5, 0, 5)

    verification = changelog.against_kafka()

    assert verification.findings == ()
    explained = "orders-0: 1 row is older than these records of their keys: offset 1; removals by other writers explain"
    assert any(note.startswith(explained) for note in verification.notes)


def test_a_late_record_explains_no_lost_key_where_kafka_has_all_records(changelog: OrderedChangelog) -> None:
    """Only a delete that Kafka does not have any more does: the late record may not be taken for one."""
    changelog.send_at(("d", None, 3, 1), ("d", 1, 9, 1), ("a", 9, 2, 1))
    changelog.catch_up()

    def damaged(rows: pa.Table) -> pa.Table:
        """Return the row of `d` twice, and none of `b`."""
        double = rows.filter(pc.equal(rows["kafka_key"], "d"))
        return pa.concat_tables([rows.filter(pc.not_equal(rows["kafka_key"], "b")), double])

    changelog.replace_rows(damaged)

    assert FindingKind.LOST_KEY in dict(kafka(changelog))


@settings(max_examples=examples(3, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=4), most=st.sampled_from([2, 9])
)
def test_whatever_the_order_kafka_agrees(
    tmp_path_factory: pytest.TempPathFactory, batches: Sequence[Sequence[Stamped]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_identity, "MOST_HELD", most)
        changelog = OrderedChangelog.at(tmp_path_factory.mktemp("lake"))
        for batch in batches:
            changelog.send_at(*batch)
            changelog.catch_up()

        verification = changelog.against_kafka()
    assert (verification.findings, verification.notes) == ((), ())


def test_damaged_deletes_are_named(changelog: OrderedChangelog) -> None:
    remembered = standing(changelog.view, pipeline=changelog.spec.pipeline).state.remembered
    assert remembered is not None
    Path(remembered.file.path.removeprefix("file://")).unlink()

    (check,) = [each for each in changelog.verify().checks if each.name == "remembered deletes"]
    assert [finding.kind for finding in check.findings] == [FindingKind.NO_STATE]
