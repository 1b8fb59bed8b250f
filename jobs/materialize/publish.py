"""The one visible moment: a staged branch becomes `main`, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from jobs.materialize.stage import ATTEMPTS, STAGE_PREFIX, Staged, contended
from jobs.materialize.state import CHECKPOINT_TAG, Standing, standing
from jobs.model.errors import CountMismatchError, FencedError, StateLostError
from jobs.model.plan import BatchPlan
from jobs.model.snapshot import TableView
from jobs.model.summary import BATCH_ID
from jobs.ports import CommitRejectedError, CommitUnknownError, Lake


@dataclass(frozen=True, slots=True)
class Done:
    """`main` carries the staged snapshot."""


@dataclass(frozen=True, slots=True)
class Ready:
    """`main` is where the branch began, and all on the branch is ours: it may be moved."""


@dataclass(frozen=True, slots=True)
class StageAgain:
    """Others committed to `main` since: the same files go onto a new branch on top of it."""

    now: Standing


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """Somebody rolled the table back: what was read is not what comes next."""


Verdict = Done | Ready | StageAgain | PlanAgain


class OvertakenError(Exception):
    """The table was rolled back while the batch was on its way; the next plan starts from where it stands now."""


def publish(
    lake: Lake,
    plan: BatchPlan,
    staged: Staged,
    *,
    stage_on: Callable[[Standing], Staged],
    rows: int,
) -> TableView:
    """Make the batch visible. The view shows `main` as it was left, whoever has come after.

    `stage_on` stages the batch's files again on another head. Raises FencedError, ForeignOwnerError,
    CountMismatchError, StateLostError, ContendedError and OvertakenError; in each case nothing became visible.
    """
    reason: Exception = OvertakenError()
    for _ in range(ATTEMPTS):
        view = _loaded(lake, plan.table)
        match judge(view, plan, staged):
            case Done():
                return replace(view, head=staged.snapshot_id)
            case Ready():
                _looked_at(lake, view, plan, staged, rows=rows)
                try:
                    lake.publish(view, branch=staged.branch, tag=CHECKPOINT_TAG, drop=list(stage_branches(view)))
                except (CommitRejectedError, CommitUnknownError) as failed:
                    reason = failed
            case StageAgain(now):
                staged = stage_on(now)
            case PlanAgain():
                raise OvertakenError
            case never:
                assert_never(never)
    view = _loaded(lake, plan.table)
    if isinstance(judge(view, plan, staged), Done):
        return replace(view, head=staged.snapshot_id)
    raise contended(plan.table, "publish", reason) from reason


def judge(view: TableView, plan: BatchPlan, staged: Staged) -> Verdict:
    """What may be done, from one read of the table's metadata. Raises FencedError and what `standing` raises."""
    if any(snapshot.id == staged.snapshot_id for snapshot in view.ancestry(view.head)):
        return Done()
    branch_is_ours = view.branches.get(staged.branch) == staged.snapshot_id
    if view.head == staged.base and branch_is_ours and _is_own(view, plan, staged):
        return Ready()
    return overtaken(view, plan)


def overtaken(view: TableView, plan: BatchPlan) -> StageAgain | PlanAgain:
    """What the head of `main` means for a batch that was planned on another one."""
    now = standing(view, pipeline=plan.state.pipeline)
    if now.state.epoch == plan.state.epoch and now.state.batch_id == plan.state.batch_id:
        return StageAgain(now)
    if now.state.epoch >= plan.state.epoch:
        raise FencedError(
            f"{plan.table}: another process published epoch {now.state.epoch} (writer {now.state.writer}) while this"
            f" one was about to publish epoch {plan.epoch}",
            hint="nothing is lost or double: let the other process go on, and stop this one",
        )
    return PlanAgain()


def new_base(lake: Lake, plan: BatchPlan) -> Standing:
    """Where to stage, once the snapshot that was planned on has expired. Raises as `publish` does."""
    match overtaken(_loaded(lake, plan.table), plan):
        case StageAgain(now):
            return now
        case PlanAgain():
            raise OvertakenError
        case never:
            assert_never(never)


def _is_own(view: TableView, plan: BatchPlan, staged: Staged) -> bool:
    snapshot = view.snapshots[staged.snapshot_id]
    return snapshot.parent_id == staged.base and snapshot.summary.get(BATCH_ID) == plan.batch_id


def last_look(view: TableView, plan: BatchPlan, staged: Staged, *, rows: int) -> None:
    """Trust the summary, not the call: what was staged must be what the tasks returned."""
    snapshot = view.snapshots[staged.snapshot_id]
    added, removed = snapshot.figure("added-records"), snapshot.figure("deleted-records")
    if (added, removed) != (rows, 0):
        raise CountMismatchError(
            f"{plan.table}: batch {plan.batch_id} was staged with {added} rows added and {removed} removed,"
            f" expected {rows} and 0; nothing was published",
            hint="the table is paused: run `frazil verify`, then `frazil resume`",
        )


def _looked_at(lake: Lake, view: TableView, plan: BatchPlan, staged: Staged, *, rows: int) -> None:
    """A last look; the branch of what does not pass it is dropped."""
    try:
        last_look(view, plan, staged, rows=rows)
    except CountMismatchError:
        with suppress(CommitRejectedError, CommitUnknownError):  # whoever publishes next drops it
            lake.drop_branches(view, [staged.branch])
        raise


def stage_branches(view: TableView) -> Iterator[str]:
    """Every staging branch, of whatever attempt: once one is published the others can never be."""
    return (name for name in view.branches if name.startswith(STAGE_PREFIX))


def _loaded(lake: Lake, table: str) -> TableView:
    view = lake.load(table)
    if view is None:
        raise StateLostError(
            f"the table {table} was dropped while a batch was about to be published",
            hint="restore it, or run `frazil materialize` to make it again from the topic",
        )
    return view
