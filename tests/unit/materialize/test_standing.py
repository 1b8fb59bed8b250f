"""The state of a table, by the nearest snapshot of Frazil in the ancestry of `main`."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from values_of_tables import SPEC, progress, snapshot, spec, state, view

from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.model.errors import ForeignOwnerError, ForeignTableError, FrazilError, StateLostError
from frazil.model.pipeline import Pipeline
from frazil.model.progress import ForeignChanges, SourceProgress
from frazil.model.snapshot import Snapshot, SourceChange, TableView
from frazil.model.summary import STATE_BYTES, STATE_CHECKSUM, checksum, store

STATE = state({0: progress(0, 7)})
OURS = snapshot(1, None, carries=STATE, total_records=7)


def stand(at: TableView) -> Standing:
    return standing(at, pipeline=SPEC.pipeline)


def refused(at: TableView, pipeline: Pipeline = SPEC.pipeline) -> FrazilError:
    with pytest.raises(FrazilError) as error:
        standing(at, pipeline=pipeline)
    return error.value


def test_a_fresh_table_stands_at_its_first_snapshot() -> None:
    here = stand(view(OURS, tags={CHECKPOINT_TAG: 1}))

    assert (here.state, here.carrier, here.foreign, here.rolled_back) == (STATE, OURS, (), False)
    assert count_foreign(here) == STATE.foreign


def test_the_newest_state_counts() -> None:
    later = snapshot(2, 1, carries=state({0: progress(0, 9)}, epoch=4))

    assert stand(view(OURS, later)).state.epoch == 4


def gross(snapshots: int, added: int, removed: int, *names: str) -> ForeignChanges:
    """Where sources cannot be compared, any row that was added may lack one."""
    return ForeignChanges(snapshots, added, removed, names, unsourced_added=added, sourced_removed=removed)


@pytest.mark.parametrize(
    ("theirs", "changes"),
    [
        (snapshot(2, 1, added_records=2), gross(1, 2, 0, "append 2")),
        (snapshot(2, 1, operation="delete", deleted_records=3), gross(1, 0, 3, "delete 2")),
        (
            snapshot(2, 1, operation="overwrite", added_position_deletes=5, removed_position_deletes=3),
            gross(1, 0, 2, "overwrite 2"),
        ),
        (
            snapshot(2, 1, operation="overwrite", added_records=94, deleted_records=100, removed_position_deletes=5),
            gross(1, 94, 95, "overwrite 2"),
        ),
        (
            snapshot(2, 1, operation="overwrite", removed_position_deletes=5),
            gross(1, 0, 0, "overwrite 2"),
        ),
        (
            snapshot(2, 1, operation="overwrite", added_records=5, deleted_records=1),
            gross(1, 5, 1, "overwrite 2"),
        ),
        (
            snapshot(2, 1, operation="replace", added_records=6, deleted_records=7),
            gross(1, 0, 0, "replace 2"),
        ),
    ],
    ids=[
        "append",
        "delete",
        "position deletes",
        "copy on write of marked rows",
        "marks of lost files",
        "an overwrite that removes and adds",
        "compaction changes no rows",
    ],
)
def test_what_others_committed_on_top_is_counted(theirs: Snapshot, changes: ForeignChanges) -> None:
    here = stand(view(OURS, theirs))

    assert (here.carrier, here.foreign) == (OURS, (theirs,))
    assert count_foreign(here) == changes


def test_changes_of_others_add_up_in_their_order() -> None:
    added = snapshot(2, 1, added_records=2)
    removed = snapshot(3, 2, operation="delete", deleted_records=1)

    assert count_foreign(stand(view(OURS, added, removed))) == gross(2, 2, 1, "append 2", "delete 3")


def counted(number: int, live: int | None, operation: str = "delete", **figures: object) -> Snapshot:
    """A snapshot on the one before, in which a reader sees `live` rows."""
    return replace(snapshot(number, number - 1, operation=operation, **figures), count_live=lambda: live)


MARKED = counted(2, 6, added_position_deletes=1, total_delete_files=1)
FILE_DROPPED = counted(3, 3, deleted_records=4, total_delete_files=1)


@pytest.mark.parametrize(
    ("theirs", "changes"),
    [
        ((MARKED,), (0, 1)),
        ((MARKED, FILE_DROPPED), (0, 4)),
        ((MARKED, FILE_DROPPED, counted(4, 5, "overwrite", added_records=2, total_delete_files=1)), (2, 4)),
        ((MARKED, counted(3, 5, "replace", total_delete_files=0), counted(4, 2, deleted_records=3)), (0, 4)),
        ((MARKED, counted(3, None, deleted_records=4, total_delete_files=1)), (0, 5)),
        ((counted(2, 9, "overwrite", total_delete_files=1),), (2, 0)),
    ],
    ids=["marked", "file dropped", "rows added", "a row lost in a compaction", "not countable", "marks removed"],
)
def test_where_rows_are_marked_as_deleted_the_rows_are_counted(
    theirs: tuple[Snapshot, ...], changes: tuple[int, int]
) -> None:
    ours = replace(OURS, count_live=lambda: 7)

    foreign = count_foreign(stand(view(ours, *theirs)))

    assert (foreign.rows_added, foreign.rows_removed) == changes
    assert foreign.snapshots == len(theirs)


def test_rows_are_not_counted_where_none_are_marked() -> None:
    def fails() -> int:
        raise AssertionError("counted")

    ours = replace(snapshot(1, None, carries=STATE, total_delete_files=0), count_live=fails)
    theirs = snapshot(2, 1, operation="delete", deleted_records=2, total_delete_files=0)

    assert count_foreign(stand(view(ours, replace(theirs, count_live=fails)))).rows_removed == 2


def compared(number: int, operation: str = "overwrite", *, schema_id: int = 0, **figures: object) -> Snapshot:
    """A snapshot on the one before that, as compared with any snapshot, added as many rows as there are between."""
    made = snapshot(number, number - 1, operation=operation, added_records=100, deleted_records=100, **figures)
    return replace(
        made, schema_id=schema_id, sources_since=lambda before, names: SourceChange(number - before, len(names))
    )


@pytest.mark.parametrize(
    ("theirs", "compared_runs"),
    [
        ((compared(2), compared(3, "append")), (2, 2)),
        ((compared(2), compared(3, "replace"), compared(4)), (2, 4)),
        ((compared(2), compared(3, schema_id=1)), (2, 4)),
    ],
    ids=["one run", "around a compaction", "a changed schema"],
)
def test_sources_are_compared_over_runs_of_one_schema(
    theirs: tuple[Snapshot, ...], compared_runs: tuple[int, int]
) -> None:
    foreign = count_foreign(stand(view(OURS, *theirs)))

    assert (foreign.unsourced_added, foreign.sourced_removed) == compared_runs
    assert foreign.snapshots == len(theirs)


def test_the_topic_is_a_part_of_the_source_where_there_are_several() -> None:
    sources = (SourceProgress("orders", "1", 0, {}), SourceProgress("returns", "2", 0, {}))
    ours = snapshot(1, None, carries=replace(STATE, sources=sources))

    assert count_foreign(stand(view(ours, compared(2)))).sourced_removed == 3


def test_a_table_that_was_rolled_back_stands_where_it_was_rolled_back_to() -> None:
    later = snapshot(2, 1, carries=state({0: progress(0, 9)}, epoch=4))

    here = stand(view(OURS, later, head=1, tags={CHECKPOINT_TAG: 2}))

    assert (here.state, here.rolled_back) == (STATE, True)


def test_a_snapshot_of_others_after_ours_is_no_rollback() -> None:
    assert not stand(view(OURS, snapshot(2, 1), tags={CHECKPOINT_TAG: 1})).rolled_back


@pytest.mark.parametrize("tags", [{}, {CHECKPOINT_TAG: 1}], ids=["tag gone", "tag there"])
def test_a_broken_chain_is_never_taken_for_a_new_table(tags: dict[str, int]) -> None:
    lost = refused(view(snapshot(3, 2, operation="delete"), tags=tags))

    assert type(lost) is StateLostError
    assert "ends at snapshot 3 (delete), whose parent 2 has expired" in lost.what


def test_a_table_that_another_engine_replaced_is_named_as_such() -> None:
    lost = refused(view(OURS, snapshot(2, None), tags={CHECKPOINT_TAG: 1}))

    assert "ends at snapshot 2 (append), which has no parent because another engine replaced the table" in lost.what


def test_a_table_whose_only_snapshots_are_not_ours_though_the_tag_is_there_has_lost_its_state() -> None:
    assert type(refused(view(snapshot(1, None), tags={CHECKPOINT_TAG: 9}))) is StateLostError


@pytest.mark.parametrize("at", [view(), view(snapshot(1, None))], ids=["no snapshot", "snapshots of others"])
def test_a_table_that_frazil_never_wrote_is_foreign(at: TableView) -> None:
    foreign = refused(at)

    assert type(foreign) is ForeignTableError
    assert "--adopt" in foreign.hint


def test_a_table_of_another_pipeline_is_refused() -> None:
    other = refused(view(OURS), pipeline=Pipeline("lake.orders", ("returns",)))

    assert type(other) is ForeignOwnerError
    assert other.what.endswith("is owned by the pipeline lake.orders<-orders, not by lake.orders<-returns")


@pytest.mark.parametrize("stored", ["lake.orders", "lake.orders<-orders", "lake.orders<-orders,others"])
@pytest.mark.parametrize("topics", [("orders",), ("orders", "returns")], ids=",".join)
def test_a_table_belongs_to_the_spec_of_its_name_that_has_one_of_its_topics(
    stored: str, topics: tuple[str, ...]
) -> None:
    """The first tables stored their topics with the name of their owner."""
    here = replace(STATE, pipeline=stored)

    found = standing(view(snapshot(1, None, carries=here)), pipeline=spec(topics=topics).pipeline)

    assert found.state == here


def test_a_table_of_another_name_is_refused() -> None:
    other = refused(view(OURS), pipeline=Pipeline("lake.returns", ("orders",)))

    assert other.what.endswith("is owned by the pipeline lake.orders<-orders, not by lake.returns<-orders")


def damaged(document: bytes | None = None, **summary: str) -> FrazilError:
    """What is said of a snapshot of ours with another document, or with other keys in its summary."""
    keys = {f"frazil.{name.replace('_', '-')}": value for name, value in summary.items()}
    read = OURS.read_document if summary else lambda: document
    return refused(view(replace(OURS, summary={**OURS.summary, **keys}, read_document=read)))


@pytest.mark.parametrize(
    ("version", "hint"),
    [("1", "drop the table"), ("3", "the Frazil release that wrote"), ("", "restore the table")],
)
def test_a_state_of_another_format_version_is_refused(version: str, hint: str) -> None:
    lost = damaged(format_version=version)

    assert type(lost) is StateLostError
    assert lost.what == f"the state of snapshot 1 has format version {version}, this Frazil reads 2"
    assert hint in lost.hint


@pytest.mark.parametrize(
    ("document", "found"), [(None, "none"), (b"", "0 bytes"), (b"other", "5 bytes"), (b"\x00" * 9, "9 bytes")]
)
def test_a_damaged_document_is_state_lost_and_names_file_and_checksums(document: bytes | None, found: str) -> None:
    ours = store(STATE).summary

    lost = damaged(document)

    assert type(lost) is StateLostError
    with_checksum = "" if document is None else f" with checksum {checksum(document)}"
    assert lost.what == (
        f"the state of snapshot 1 is damaged: expected {ours[STATE_BYTES]} bytes with checksum"
        f" {ours[STATE_CHECKSUM]} in the header of snap-1.avro, found {found}{with_checksum}"
    )
    assert "restore that file" in lost.hint


def test_a_summary_that_was_edited_is_state_lost() -> None:
    lost = damaged(epoch="9", writer="other")

    assert type(lost) is StateLostError
    assert "differs from the state in snap-1.avro in frazil.epoch, frazil.writer" in lost.what


@pytest.mark.parametrize("text", [b"no JSON", b"[]", b'{"state": {"epoch": 3}}'])
def test_a_whole_document_that_is_no_state_is_not_guessed_at(text: bytes) -> None:
    document = zlib.compress(text)
    keys = {STATE_BYTES: str(len(document)), STATE_CHECKSUM: checksum(document)}

    lost = refused(view(replace(OURS, summary={**OURS.summary, **keys}, read_document=lambda: document)))

    assert type(lost) is StateLostError
    assert "has the right checksum but cannot be parsed" in lost.what
