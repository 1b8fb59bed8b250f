"""Verdicts on a batch that is about to be published, each from one read of the table's metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from frazil.materialize.branches import Staged
from frazil.materialize.changed_spec.applied_spec import read_by
from frazil.materialize.state import Standing, standing
from frazil.model.errors import FencedError, StateLostError
from frazil.model.pipeline import Pipeline
from frazil.model.plan import BatchPlan
from frazil.model.snapshot import TableView
from frazil.model.summary import batch_of
from frazil.ports import Lake

FENCED_HINT = (
    "no record is lost or duplicated: leave the table to the other process; if that is the wrong one, stop it and"
    " start this one again"
)


@dataclass(frozen=True, slots=True)
class Done:
    """`main` carries the batch, with this snapshot: the staged one, or that of another process that completed it."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Ready:
    """`main` is where the branch began, and all on the branch is ours: it may be moved."""


@dataclass(frozen=True, slots=True)
class StageAgain:
    """Others have committed to `main` since: the same files are staged on a new branch on top of its head."""

    now: Standing


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """The table was rolled back or rebuilt, dead letters were replayed, or another process made it follow another spec.

    The batch no longer fits the table: of a changed spec, its rows may lack values of columns that were made since.
    """


Verdict = Done | Ready | StageAgain | PlanAgain


class OvertakenError(Exception):
    """The table's state changed while the batch ran, and no record was read since: it is planned again."""


def judge(view: TableView, plan: BatchPlan, staged: Staged) -> Verdict:
    """Return what may be done, from one read of the table's metadata. Raises FencedError and what `standing` raises."""
    for snapshot in view.ancestry(view.head):
        if batch_of(snapshot) == plan.itself:
            return Done(snapshot.id)
    branch_is_ours = view.branches.get(staged.branch) == staged.snapshot_id
    is_ready = view.head == staged.base and branch_is_ours and _is_own(view, plan, staged)
    verdict = Ready() if is_ready else overtaken(view, plan)
    is_changed = staged.read_by is not None and staged.read_by != read_by(view)
    return PlanAgain() if is_changed else verdict


def overtaken(view: TableView, plan: BatchPlan) -> StageAgain | PlanAgain:
    """Return whether a batch that was planned on another head is staged again or planned again.

    A replay leaves the next offsets as they are: a batch that one overtook is planned again, not fenced. A replay that
    any batch overtook is planned again too, since another replay may have had the same dead letters. So is every batch
    whose table was rebuilt meanwhile.

    Raises FencedError if another process published this epoch or a later one.
    """
    now = standing(view, pipeline=Pipeline.of_state(plan.state))
    if now.state.itself == plan.state.itself:
        return StageAgain(now)
    if plan.is_replay or now.state.last_read == plan.state.last_read or now.state.generation > plan.state.generation:
        return PlanAgain()
    if now.state.epoch >= plan.state.epoch:
        raise FencedError(
            f"{plan.table}: another process published epoch {now.state.epoch} (writer {now.state.writer}) while this"
            f" one was about to publish epoch {plan.epoch}",
            hint=FENCED_HINT,
        )
    return PlanAgain()


def new_base(lake: Lake, plan: BatchPlan) -> Standing:
    """Return the snapshot to stage on, once the one that was planned on has expired.

    Raises FencedError as `overtaken`, StateLostError if the table was dropped, and OvertakenError to plan again.
    """
    match overtaken(loaded(lake, plan.table), plan):
        case StageAgain(now):
            return now
        case PlanAgain():
            raise OvertakenError
        case never:
            assert_never(never)


def _is_own(view: TableView, plan: BatchPlan, staged: Staged) -> bool:
    snapshot = view.snapshots[staged.snapshot_id]
    return snapshot.parent_id == staged.base and batch_of(snapshot) == plan.itself


def loaded(lake: Lake, table: str) -> TableView:
    """Return the table as it is now. Raises StateLostError if it was dropped."""
    view = lake.load(table)
    if view is None:
        raise StateLostError(
            f"the table {table} was dropped while a batch was about to be published",
            hint="restore it, or run `frazil materialize` to create it again from the topic; of a spec with routes,"
            " drop the other tables first",
        )
    return view
