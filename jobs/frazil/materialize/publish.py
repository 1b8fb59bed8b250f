"""The one visible moment: a staged branch becomes `main`, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from frazil.materialize.batch_age import refuse_old
from frazil.materialize.branches import ATTEMPTS, Staged, given_up, stage_branches
from frazil.materialize.epoch_tags import epoch_tag, outdated
from frazil.materialize.rewrite_tags import rewrite_tags
from frazil.materialize.state import CHECKPOINT_TAG, Standing
from frazil.materialize.verdicts import Done, OvertakenError, PlanAgain, Ready, StageAgain, judge, loaded
from frazil.model.errors import CommitError, CountMismatchError, FrazilError
from frazil.model.plan import BatchPlan
from frazil.model.snapshot import TableView
from frazil.model.summary import batch_of
from frazil.ports import Lake


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a batch that one table gets. `plan` has the table's own state.

    `stage_on` stages the same files again on another head. `tags_epoch`: the snapshot gets the tag of its epoch.
    `began` is `elapsed_seconds()` before the batch wrote its first file.
    """

    plan: BatchPlan
    staged: Staged
    stage_on: Callable[[Standing], Staged]
    tags_epoch: bool = False
    began: float | None = None


def publish(lake: Lake, shares: Sequence[Share]) -> list[TableView]:
    """Make the batch visible: in the first table, which decides, and then in the others.

    Returns each table as of this commit, even if other commits followed. Every table is judged before one changes.

    Raises FencedError, ForeignOwnerError, CountMismatchError, StateLostError, ContendedError, CatalogError and
    OvertakenError, also if the batch is too old. Nothing became visible then; or the first table has the batch, and
    the next run completes it. A CountMismatchError always means the former.
    """
    try:
        judged = [_judged(lake, share) for share in shares]
    except CountMismatchError:
        for share in shares:
            _drop_staged(lake, share.plan)
        raise
    refuse_old(shares[0].plan.table, shares[0].began)
    decided, *others = judged
    views = [_published(lake, decided)]
    try:
        return views + [_published(lake, each) for each in others]
    except CountMismatchError as mismatch:  # of what was staged again since it was judged
        raise OvertakenError("the first table has the batch, which the next run completes") from mismatch


def publish_decided(lake: Lake, shares: Sequence[Share]) -> list[TableView]:
    """Make the shares of a batch visible that another table of the group has. Raises as `publish`; all branches stay.

    A share that is published stays so if a later one fails.
    """
    return [_published(lake, _judged(lake, share)) for share in shares]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A share whose branch may be moved, by this look at its table; or one that is `done`."""

    share: Share
    view: TableView
    done: Done | None = None


def _judged(lake: Lake, share: Share) -> _Judged:
    """Judge a share, and stage it again as often as others commit first."""
    for _ in range(ATTEMPTS):
        view = loaded(lake, share.plan.table)
        match judge(view, share.plan, share.staged):
            case Done() as done:
                return _Judged(share, view, done)
            case Ready():
                last_look(view, share.plan, share.staged)
                return _Judged(share, view)
            case StageAgain(now):
                share = replace(share, staged=share.stage_on(now))
            case PlanAgain():
                raise OvertakenError
            case never:
                assert_never(never)
    raise given_up(share.plan.table, "publish", OvertakenError("other commits came first"))


def _published(lake: Lake, judged: _Judged) -> TableView:
    reason: Exception = OvertakenError("not tried")
    for _ in range(ATTEMPTS):
        if judged.done is not None:
            return replace(judged.view, head=judged.done.snapshot_id)
        view, staged, epoch = judged.view, judged.share.staged, judged.share.plan.epoch
        tags, old_tags = ([epoch_tag(epoch)], outdated(view, epoch)) if judged.share.tags_epoch else ([], ())
        try:
            lake.publish(
                view,
                branch=staged.branch,
                tag=CHECKPOINT_TAG,
                drop=[*stage_branches(view), *rewrite_tags(view), *old_tags],
                statistics=staged.statistics,
                more_tags=tags,
            )
        except CommitError as failed:
            reason = failed
        judged = _judged(lake, judged.share)
    if judged.done is not None:
        return replace(judged.view, head=judged.done.snapshot_id)
    raise given_up(judged.share.plan.table, "publish", reason) from reason


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


def _drop_staged(lake: Lake, plan: BatchPlan) -> None:
    """Drop the branches of a batch that is not published."""
    with suppress(FrazilError):  # the next publish drops them
        view = loaded(lake, plan.table)
        heads = ((name, view.snapshots[view.branches[name]]) for name in stage_branches(view))
        lake.drop_branches(view, [name for name, head in heads if batch_of(head) == plan.itself])
