"""Every planted damage is found and named; what others did openly is named and is no fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.iceberg.scan import LiveFile, live_files
from frazil.model.changes import RenameColumn
from frazil.model.progress import Counts, TableState
from frazil.proof.verification import Discrepancy, FindingKind, Verification
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake, altered, dead_letters, rows, spec_of, without


def verify(lake: SmallLake) -> Verification:
    return verify_table(lake.lake, lake.spec)


def kinds(verification: Verification) -> set[FindingKind]:
    return {finding.kind for finding in verification.findings}


def finding(verification: Verification, kind: FindingKind) -> Discrepancy:
    (found,) = [each for each in verification.findings if each.kind is kind]
    return found


def test_table_as_it_was_written_is_clean(lake: SmallLake) -> None:
    verification = verify(lake)

    assert verification.findings == ()
    assert verification.epoch == 2
    assert verification.counts == Counts(read=149, rows=147, dead_letters=2)
    assert [check.name for check in verification.checks] == [
        "state",
        "files",
        "rows",
        "dead-letter files",
        "dead letters",
    ]


def test_proof_holds_after_every_other_snapshot_expired(lake: SmallLake) -> None:
    table = lake.table
    head = lake.view.head
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([s.snapshot_id for s in table.snapshots() if s.snapshot_id != head])

    assert len(lake.view.snapshots) == 1
    assert verify(lake).clean


def test_lost_row_is_named(lake: SmallLake) -> None:
    path = lake.rewrite_in_place(without("kafka_offset", 77), path=_file_with(lake, 77))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.CHANGED_FILE, FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}
    assert finding(verification, FindingKind.LOST_ROWS).offsets == (77,)
    assert finding(verification, FindingKind.LOST_ROWS).where == "orders-0"
    assert str(path) in finding(verification, FindingKind.CHANGED_FILE).where
    assert finding(verification, FindingKind.CHANGED_FILE).what == "39 rows in the file, 40 in its manifest"


def test_several_lost_rows_beside_a_gap_are_candidates(lake: SmallLake) -> None:
    gone = {70, 71}
    lake.rewrite_in_place(
        lambda t: t.filter(pa.compute.invert(pa.compute.is_in(t["kafka_offset"], pa.array(gone)))),
        path=_file_with(lake, 70),
    )

    lost = finding(verify(lake), FindingKind.LOST_ROWS)

    assert lost.offsets == (50, 70, 71)
    assert lost.what.startswith("missing: 2 of 97 rows: among offsets 50, 70, 71")


def test_several_lost_rows_without_gaps_are_certain(lake: SmallLake) -> None:
    lake.rewrite_in_place(
        lambda t: t.filter(pa.compute.less(t["kafka_offset"], 48)), path=_file_with(lake, 49, partition=1)
    )

    lost = [f for f in verify(lake).findings if f.kind is FindingKind.LOST_ROWS and f.where == "orders-1"]

    assert [f.offsets for f in lost] == [(48, 49)]
    assert lost[0].what.endswith("offsets 48, 49")


def test_doubled_row_is_named(lake: SmallLake) -> None:
    lake.rewrite_in_place(lambda t: pa.concat_tables([t, t.slice(5, 1)]), path=_file_with(lake, 77))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.CHANGED_FILE, FindingKind.ROW_COUNT, FindingKind.DOUBLED_ROWS}
    assert finding(verification, FindingKind.DOUBLED_ROWS).offsets == (65,)


def test_batch_that_a_zombie_appends_again_is_doubled_rows(lake: SmallLake) -> None:
    lake.table.append(_table(lake, [60, 61, 62]))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.DOUBLED_ROWS}
    assert finding(verification, FindingKind.DOUBLED_ROWS).offsets == (60, 61, 62)


def test_offset_altered_onto_another_is_a_doubled_and_a_lost_row(lake: SmallLake) -> None:
    lake.rewrite_in_place(altered("kafka_offset", {70: 71}), path=_file_with(lake, 70))

    verification = verify(lake)

    assert finding(verification, FindingKind.DOUBLED_ROWS).offsets == (71,)
    assert finding(verification, FindingKind.LOST_ROWS).offsets == (70,)


def test_offset_altered_beyond_what_was_read_is_out_of_bounds(lake: SmallLake) -> None:
    lake.rewrite_in_place(altered("kafka_offset", {70: 100, 71: -1}), path=_file_with(lake, 70))

    verification = verify(lake)

    assert finding(verification, FindingKind.OUT_OF_BOUNDS).offsets == (100, -1)
    assert FindingKind.LOST_ROWS in kinds(verification)


def test_offset_altered_onto_a_gap_shows_in_the_sums(lake: SmallLake) -> None:
    lake.compact(altered("kafka_offset", {70: 50}))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.ALTERED_OFFSETS}
    assert finding(verification, FindingKind.ALTERED_OFFSETS).offsets == (70,)


def test_offset_altered_onto_a_dead_letter_is_in_both_places(lake: SmallLake) -> None:
    lake.compact(altered("kafka_offset", {70: 10}))

    assert finding(verify(lake), FindingKind.ROW_AND_DEAD_LETTER).offsets == (10,)


def test_compaction_is_clean_and_named(lake: SmallLake) -> None:
    lake.compact()

    verification = verify(lake)

    assert verification.findings == ()
    assert verification.foreign.names[-1].startswith("replace ")


def test_replace_that_drops_a_row_is_no_compaction(lake: SmallLake) -> None:
    lake.compact(without("kafka_offset", 77))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}
    assert finding(verification, FindingKind.LOST_ROWS).offsets == (77,)


def test_missing_file_is_named_with_its_rows(lake: SmallLake) -> None:
    path = _file_with(lake, 77)
    path.unlink()

    verification = verify(lake)

    assert str(path) in finding(verification, FindingKind.MISSING_FILE).where
    assert finding(verification, FindingKind.MISSING_FILE).what == "the file is missing, with 40 rows"
    assert finding(verification, FindingKind.LOST_ROWS).what.startswith("missing: 40 of 97 rows")


def test_file_that_is_no_parquet_any_more_is_named(lake: SmallLake) -> None:
    path = _file_with(lake, 77)
    path.write_bytes(b"x" * path.stat().st_size)

    assert str(path) in finding(verify(lake), FindingKind.UNREADABLE_FILE).where


def test_rewritten_file_of_the_same_rows_is_named(lake: SmallLake) -> None:
    path = lake.rewrite_in_place(altered("kafka_schema_id", {1: 2}))

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.CHANGED_FILE}
    assert str(path) in verification.findings[0].where


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Counts(rows=1), {FindingKind.UNBALANCED, FindingKind.ROW_COUNT, FindingKind.LOST_ROWS}),
        (Counts(read=1, dead_letters=1), {FindingKind.DEAD_LETTER_COUNT}),
        (Counts(read=-1, rows=-1), {FindingKind.EXTRA_ROWS, FindingKind.ROW_COUNT}),
        (Counts(read=50, rows=50), {FindingKind.UNBALANCED, FindingKind.LOST_ROWS, FindingKind.ROW_COUNT}),
    ],
)
def test_wrong_count_in_the_state_is_found(lake: SmallLake, change: Counts, expected: set[FindingKind]) -> None:
    lake.batch(Read("orders", 0, 100, 101), damage_state=lambda state: _counted(state, change))

    assert kinds(verify(lake)) == expected


def test_foreign_insert_is_named_and_clean(lake: SmallLake) -> None:
    lake.table.append(_unsourced(3))

    verification = verify(lake)

    assert verification.findings == ()
    assert verification.foreign.rows_added == 3
    assert verification.notes[0] == "3 rows without a partition or offset, inserted by another writer"
    assert verification.foreign.names[0] in verification.notes[1]


def test_foreign_insert_before_our_batch_is_clean_after_it(lake: SmallLake) -> None:
    lake.table.append(_unsourced(3))
    lake.state = lake.state.with_foreign(verify(lake).foreign)
    lake.batch(Read("orders", 0, 100, 110))

    assert verify(lake).clean


def test_lost_row_beside_a_foreign_insert_is_found(lake: SmallLake) -> None:
    lake.table.append(_unsourced(3))
    lake.rewrite_in_place(altered("kafka_offset", {49: 48}), path=_file_with(lake, 49, partition=1))

    assert {FindingKind.DOUBLED_ROWS, FindingKind.LOST_ROWS} <= kinds(verify(lake))


def test_foreign_delete_is_named_and_clean(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 77")

    verification = verify(lake)

    assert verification.findings == ()
    assert verification.foreign.rows_removed - verification.foreign.rows_added == 1
    assert verification.notes[-1].startswith(
        "orders-0: missing: 1 row that Frazil wrote; removals by other writers explain"
    )


def test_loss_beyond_a_foreign_delete_is_found(lake: SmallLake) -> None:
    lake.table.delete("kafka_offset = 77")
    lake.compact(without("kafka_offset", 78))

    assert {FindingKind.ROW_COUNT, FindingKind.LOST_ROWS} <= kinds(verify(lake))


def test_foreign_update_of_another_column_keeps_the_proof(lake: SmallLake) -> None:
    table = lake.table
    table.overwrite(altered("kafka_schema_id", {1: 9})(table.scan().to_arrow()))

    verification = verify(lake)

    assert verification.findings == ()
    assert not any("cannot be proven" in note for note in verification.notes)


def test_dead_letter_lost_is_found(lake: SmallLake) -> None:
    lake.lake.catalog.load_table(lake.spec.dead_letters_identifier).delete("offset = 10")

    verification = verify(lake)

    assert kinds(verification) == {FindingKind.DEAD_LETTER_COUNT}
    assert finding(verification, FindingKind.DEAD_LETTER_COUNT).where == "orders-0"


def test_dead_letter_doubled_is_named(lake: SmallLake) -> None:
    _append_dead_letters(lake, dead_letters("orders", 0, [10], "batch9", table_uuid=lake.view.uuid))

    assert finding(verify(lake), FindingKind.DOUBLED_DEAD_LETTERS).offsets == (10,)


def test_dead_letters_prepared_by_a_run_that_died_count(lake: SmallLake) -> None:
    lake.batch(Read("orders", 0, 100, 110, dead=(105,)), show=False)

    verification = verify(lake)

    assert verification.findings == ()
    assert any("the next run makes them visible" in note for note in verification.notes)


def test_dropped_table_of_dead_letters_is_found(lake: SmallLake) -> None:
    lake.lake.catalog.drop_table(lake.spec.dead_letters_identifier)

    assert kinds(verify(lake)) == {FindingKind.NO_TABLE}


def test_rolled_back_table_is_clean_and_says_so(lake: SmallLake) -> None:
    lake.batch(Read("orders", 0, 100, 110, dead=(105,)))
    parent = lake.view.snapshots[lake.view.head or 0].parent_id or 0
    lake.table.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()

    verification = verify(lake)

    assert verification.findings == ()
    assert any("the table was rolled back" in note for note in verification.notes)
    assert any("dead letters of batches that the table does not have are left out" in n for n in verification.notes)


def test_summary_that_its_manifests_contradict_is_found(lake: SmallLake) -> None:
    lake.summarise_otherwise(total_data_files="9")

    assert finding(verify(lake), FindingKind.SUMMARY).what == (
        "its summary says total-data-files = 9, its manifests add up to 2"
    )


def test_summary_may_leave_totals_out(lake: SmallLake) -> None:
    metadata = Path(lake.table.metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"total-data-files"', '"not-given"'))

    assert verify(lake).clean


def test_equality_deletes_cannot_be_looked_through(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    there = live_files(lake.view, lake.view.head or 0)
    deletes = replace(there, equality_deletes=(LiveFile("deletes.parquet", 1, 1),))
    uuid = lake.view.uuid
    monkeypatch.setattr(
        "frazil.verify.files.live_files",
        lambda view, snapshot_id: deletes if view.uuid == uuid else live_files(view, snapshot_id),
    )

    assert kinds(verify(lake)) == {FindingKind.UNPROVABLE}


def test_table_without_the_columns_that_trace_rows_is_unprovable(lake: SmallLake) -> None:
    lake.lake.change_schema(lake.view, [RenameColumn("kafka_offset", "theirs")], {})

    assert kinds(verify(lake)) == {FindingKind.UNPROVABLE}


def test_rows_of_a_partition_that_was_never_read_are_found(lake: SmallLake) -> None:
    lake.table.append(pa.Table.from_batches([rows(lake.spec, "orders", 7, [1, 2])]))

    found = finding(verify(lake), FindingKind.OUT_OF_BOUNDS)

    assert (found.where, found.what) == ("orders-7", "2 rows of a partition that was never read")


def test_dead_letter_of_an_offset_that_was_never_read_is_found(lake: SmallLake) -> None:
    _append_dead_letters(lake, dead_letters("orders", 0, [500], "batch2", table_uuid=lake.view.uuid))

    assert finding(verify(lake), FindingKind.OUT_OF_BOUNDS).offsets == (500,)


def test_dead_letters_of_a_replaced_topic_do_not_count(lake: SmallLake) -> None:
    earlier = dead_letters("orders", 0, [10, 500], "batch0", table_uuid=lake.view.uuid, generation=-1)
    _append_dead_letters(lake, earlier)

    verification = verify(lake)

    assert verification.findings == ()
    assert "not counted: 2 dead letters of a replaced table or topic" in verification.notes


def test_offsets_out_of_order_in_the_state_are_found(lake: SmallLake) -> None:
    def backwards(state: TableState) -> TableState:
        (source,) = state.sources
        return replace(
            state,
            sources=(replace(source, partitions={**source.partitions, 1: replace(source.partitions[1], start=51)}),),
        )

    lake.batch(Read("orders", 0, 100, 101), damage_state=backwards)

    assert finding(verify(lake), FindingKind.UNBALANCED).what == (
        "began at 0, last batch at 51, read to 50: not in order"
    )


def test_a_table_that_was_dropped_is_a_finding(lake: SmallLake) -> None:
    lake.lake.catalog.drop_table(lake.spec.identifier)

    assert kinds(verify(lake)) == {FindingKind.NO_TABLE}


def test_table_of_another_pipeline_is_a_finding(lake: SmallLake) -> None:
    assert kinds(verify_table(lake.lake, spec_of("returns"))) == {FindingKind.NO_STATE}


def test_several_topics_are_told_apart(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path, spec_of("orders", "returns"))
    lake.batch(Read("orders", 0, 0, 10), Read("returns", 0, 5, 25, dead=(6,)))

    assert verify(lake).clean

    lake.rewrite_in_place(lambda t: t.filter(pa.compute.not_equal(t["kafka_offset"], 20)), path=_file_with(lake, 20))
    lost = finding(verify(lake), FindingKind.LOST_ROWS)
    assert (lost.where, lost.offsets) == ("returns-0", (20,))


def _file_with(lake: SmallLake, offset: int, partition: int = 0) -> Path:
    for path in lake.files():
        table = pq.read_table(path, columns=["kafka_partition", "kafka_offset"])
        if {"kafka_partition": partition, "kafka_offset": offset} in table.to_pylist():
            return path
    raise AssertionError(f"no file holds offset {offset}")


def _append_dead_letters(lake: SmallLake, letters: pa.RecordBatch) -> None:
    lake.lake.catalog.load_table(lake.spec.dead_letters_identifier).append(pa.Table.from_batches([letters]))


def _table(lake: SmallLake, offsets: list[int]) -> pa.Table:
    return pa.Table.from_batches([rows(lake.spec, "orders", 0, offsets)])


def _unsourced(count: int) -> pa.Table:
    return pa.table({"symbol": ["X"] * count})


def _counted(state: TableState, change: Counts) -> TableState:
    (source,) = state.sources
    first = source.partitions[0]
    partitions = {**source.partitions, 0: replace(first, counts=first.counts + change)}
    return replace(state, sources=(replace(source, partitions=partitions),))
