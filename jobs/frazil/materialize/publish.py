"""The one visible moment: a staged branch becomes `main`, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from frazil.materialize.branches import ATTEMPTS, STAGE_PREFIX, Staged, given_up
from frazil.materialize.state import CHECKPOINT_TAG, Standing
from frazil.materialize.verdicts import Done, OvertakenError, PlanAgain, Ready, StageAgain, judge, loaded
from frazil.model.errors import CommitError, CountMismatchError
from frazil.model.plan import BatchPlan
from frazil.model.snapshot import TableView
from frazil.ports import Lake


def publish(
    lake: Lake,
    plan: BatchPlan,
    staged: Staged,
    *,
    stage_on: Callable[[Standing], Staged],
) -> TableView:
    """Make the batch visible. Returns the table as of this commit, even if other commits followed.

    `stage_on` stages the batch's files again on another head. Raises FencedError, ForeignOwnerError,
    CountMismatchError, StateLostError, ContendedError, CatalogError and OvertakenError; in each case nothing became
    visible.
    """
    reason: Exception = OvertakenError("other commits came first")
    for _ in range(ATTEMPTS):
        view = loaded(lake, plan.table)
        match judge(view, plan, staged):
            case Done():
                return replace(view, head=staged.snapshot_id)
            case Ready():
                _looked_at(lake, view, plan, staged)
                try:
                    lake.publish(view, branch=staged.branch, tag=CHECKPOINT_TAG, drop=list(stage_branches(view)))
                except CommitError as failed:
                    reason = failed
            case StageAgain(now):
                staged = stage_on(now)
            case PlanAgain():
                raise OvertakenError
            case never:
                assert_never(never)
    view = loaded(lake, plan.table)
    if isinstance(judge(view, plan, staged), Done):
        return replace(view, head=staged.snapshot_id)
    raise given_up(plan.table, "publish", reason) from reason


def last_look(view: TableView, plan: BatchPlan, staged: Staged) -> None:
    """Raise CountMismatchError if the staged snapshot's summary lacks a figure that it must have."""
    snapshot = view.snapshots[staged.snapshot_id]
    found = {name: snapshot.figure(name) for name in staged.figures}
    if found != staged.figures:
        raise CountMismatchError(
            f"{plan.table}: batch {plan.batch_id} was staged with {_listed(found)}, expected {_listed(staged.figures)};"
            " nothing was published",
            hint="the table is paused: run `frazil verify`, then `frazil resume`",
        )


def _listed(figures: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in figures.items())


def _looked_at(lake: Lake, view: TableView, plan: BatchPlan, staged: Staged) -> None:
    """Take a last look, and drop the branch if it fails."""
    try:
        last_look(view, plan, staged)
    except CountMismatchError:
        with suppress(CommitError):  # the next publish drops it
            lake.drop_branches(view, [staged.branch])
        raise


def stage_branches(view: TableView) -> Iterator[str]:
    """Return the staging branches of all attempts: once one is published, the others can never be."""
    return (name for name in view.branches if name.startswith(STAGE_PREFIX))
