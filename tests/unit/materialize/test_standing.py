"""Where a table stands, by the nearest snapshot of ours in the ancestry of `main`."""

from __future__ import annotations

import pytest
from values_of_tables import SPEC, progress, snapshot, state, view

from jobs.materialize.state import CHECKPOINT_TAG, Standing, standing
from jobs.model.errors import ForeignOwnerError, ForeignTableError, FrazilError, StateLostError
from jobs.model.progress import ForeignChanges
from jobs.model.snapshot import Snapshot, TableView
from jobs.model.summary import EPOCH, SOURCES, VERSION

STATE = state({0: progress(0, 7)})
OURS = snapshot(1, None, carries=STATE, total_records=7)


def stand(at: TableView) -> Standing:
    return standing(at, pipeline=SPEC.pipeline)


def refused(at: TableView, pipeline: str = SPEC.pipeline) -> FrazilError:
    with pytest.raises(FrazilError) as error:
        standing(at, pipeline=pipeline)
    return error.value


def test_a_fresh_table_stands_at_its_first_snapshot() -> None:
    here = stand(view(OURS, tags={CHECKPOINT_TAG: 1}))

    assert (here.state, here.carrier, here.foreign, here.rolled_back) == (STATE, OURS, (), False)
    assert here.state_with_foreign == STATE


def test_the_newest_state_counts() -> None:
    later = snapshot(2, 1, carries=state({0: progress(0, 9)}, epoch=4))

    assert stand(view(OURS, later)).state.epoch == 4


@pytest.mark.parametrize(
    ("theirs", "changes"),
    [
        (snapshot(2, 1, added_records=2), ForeignChanges(1, 2, 0, ("append 2",))),
        (snapshot(2, 1, operation="delete", deleted_records=3), ForeignChanges(1, 0, 3, ("delete 2",))),
        (
            snapshot(2, 1, operation="overwrite", added_position_deletes=5, removed_position_deletes=3),
            ForeignChanges(1, 0, 2, ("overwrite 2",)),
        ),
        (
            snapshot(2, 1, operation="overwrite", added_records=5, deleted_records=1),
            ForeignChanges(1, 5, 1, ("overwrite 2",)),
        ),
        (
            snapshot(2, 1, operation="replace", added_records=6, deleted_records=7),
            ForeignChanges(1, 0, 0, ("replace 2",)),
        ),
    ],
    ids=["append", "delete", "position deletes", "an overwrite that removes and adds", "compaction changes no rows"],
)
def test_what_others_committed_on_top_is_counted(theirs: Snapshot, changes: ForeignChanges) -> None:
    here = stand(view(OURS, theirs))

    assert (here.carrier, here.foreign) == (OURS, (theirs,))
    assert here.state_with_foreign.foreign == changes


def test_changes_of_others_add_up_in_their_order() -> None:
    added = snapshot(2, 1, added_records=2)
    removed = snapshot(3, 2, operation="delete", deleted_records=1)

    assert stand(view(OURS, added, removed)).state_with_foreign.foreign == ForeignChanges(
        2, 2, 1, ("append 2", "delete 3")
    )


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


def test_a_table_whose_only_snapshots_are_not_ours_though_the_tag_is_there_has_lost_its_state() -> None:
    assert type(refused(view(snapshot(1, None), tags={CHECKPOINT_TAG: 9}))) is StateLostError


@pytest.mark.parametrize("at", [view(), view(snapshot(1, None))], ids=["no snapshot", "snapshots of others"])
def test_a_table_that_frazil_never_wrote_is_foreign(at: TableView) -> None:
    foreign = refused(at)

    assert type(foreign) is ForeignTableError
    assert "--adopt" in foreign.hint


def test_a_table_of_another_pipeline_is_refused() -> None:
    other = refused(view(OURS), pipeline="lake.orders<-returns")

    assert type(other) is ForeignOwnerError
    assert other.what.endswith("is owned by the pipeline lake.orders<-orders, not by lake.orders<-returns")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (VERSION, "2", "has format version 2, this Frazil reads 1"),
        (EPOCH, "many", "cannot be read"),
        (SOURCES, "[{}]", "cannot be read"),
    ],
)
def test_a_state_that_cannot_be_read_is_lost_not_guessed(name: str, value: str, said: str) -> None:
    damaged = Snapshot(1, None, "append", {**OURS.summary, name: value}, OURS.committed_at)

    lost = refused(view(damaged))

    assert type(lost) is StateLostError
    assert said in lost.what
