"""Complete the last batch of a group: its ledger has it, and tables lack it because a process died before the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from frazil.materialize.branches import (
    ATTEMPTS,
    BaseExpiredError,
    Staged,
    branch_names,
    given_up,
    stage_branches,
    stage_with_state,
)
from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.epoch_tags import has_epoch_tags
from frazil.materialize.evolve import NO_SCHEMAS
from frazil.materialize.foreign import count_foreign
from frazil.materialize.group.apart import tables_apart
from frazil.materialize.group.rebuilt import changed_since_ready, is_ready, take_rebuilt
from frazil.materialize.publish import Share, publish_decided
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.materialize.verdicts import OvertakenError, loaded
from frazil.model.errors import CommitError, CountMismatchError, FencedError, GroupApartError
from frazil.model.plan import BatchPlan
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import BATCH_ID, receipt_in, state_in
from frazil.modes.mode import BatchChange, Written, find_none
from frazil.modes.open import open_mode
from frazil.ports import Lake

Places = Mapping[str, Standing]
"""The tables of a group by identifier, the ledger first."""


def complete(lake: Lake, spec: TableSpec, here: Places) -> Places:
    """Return the tables, all with the last batch of the ledger, whose spec is `spec`.

    A table that has no part in this batch is returned as it is. A table that had one and is not in `here`, because its
    route was removed, gets the batch as well.

    Raises GroupApartError where a table cannot get the batch, ContendedError, and CatalogError.
    """
    if spec.group is None:
        return here
    for _ in range(ATTEMPTS):
        tables = _with_part(lake, spec, here)
        ledger = here[spec.identifier]
        behind = [each for each in tables.values() if each.state.itself != ledger.state.itself]
        if not behind:
            return here
        why = _completed(lake, spec, ledger, behind)
        here = {identifier: _loaded(lake, spec, identifier) for identifier in here}
        if why and all(each.state.itself == tables[name].state.itself for name, each in here.items() if name in tables):
            raise tables_apart(spec.pipeline.name, list(tables.values()), why)
    raise given_up(spec.pipeline.name, "complete the last batch", OvertakenError("other commits came first"))


def _with_part(lake: Lake, spec: TableSpec, here: Places) -> Places:
    """Return the tables that have a part in the last batch of the ledger, itself included."""
    group = here[spec.identifier].state.group
    names = [] if group is None else [f"{spec.database}.{route.table}" for route in group.routes]
    removed = [name for name in names if name not in here and lake.load(name) is not None]
    known = {**here, **{name: _loaded(lake, spec, name) for name in removed}}
    return {name: known[name] for name in (spec.identifier, *names) if name in known}


def _loaded(lake: Lake, spec: TableSpec, identifier: str) -> Standing:
    return standing(loaded(lake, identifier), pipeline=spec.pipeline)


def _completed(lake: Lake, spec: TableSpec, ledger: Standing, behind: Sequence[Standing]) -> str:
    """Publish the staged branches of the ledger's batch, or take its rebuild. Return why that cannot be, or nothing.

    A table that another process moves meanwhile is judged again.
    """
    problems = [problem for each in behind if (problem := why_apart(ledger, each))]
    if problems:
        return "; ".join(problems)
    try:
        if is_ready(behind[0], ledger.state.batch_id):  # then all of them are
            for each in behind:
                take_rebuilt(lake, spec, each)
            return ""
        publish_decided(lake, [_share(lake, spec, ledger, each) for each in behind])
    except (OvertakenError, FencedError, CommitError):
        return ""
    except CountMismatchError as mismatch:
        return mismatch.what
    return ""


def why_apart(ledger: Standing, behind: Standing) -> str:
    """Return why a table cannot get the ledger's batch, or nothing."""
    name, batch = behind.view.identifier, ledger.state.itself
    tagged = behind.view.snapshots.get(behind.view.tags.get(CHECKPOINT_TAG, -1))
    if tagged is not None and tagged.summary.get(BATCH_ID) == batch.batch_id:
        return f"{name} was rolled back"
    if behind.state.epoch + 1 != batch.epoch:
        return f"{name} is not one epoch behind the ledger, {ledger.view.identifier}"
    if is_ready(behind, batch.batch_id):
        return changed_since_ready(behind)
    branch = staged_branch(behind, batch.batch_id)
    if branch is None:
        return f"{name} has no branch with the ledger's batch: another tool dropped it"
    if _follows_keys(behind.view) and _staged(behind, branch).parent_id != behind.view.head:
        return f"{name} was changed by another writer before it had the ledger's batch, which was staged without that"
    return ""


def _follows_keys(view: TableView) -> bool:
    applied = applied_spec_of(view.properties, table=view.identifier)
    return applied is not None and applied.keys["write"] != "append"


def _staged(at: Standing, branch: str) -> Snapshot:
    return at.view.snapshots[at.view.branches[branch]]


def left_ahead(ledger: Standing, other: Standing) -> bool:
    """Return whether the ledger was rolled back from the batch of another table, which still has it."""
    had = ledger.view.ancestry(ledger.view.tags.get(CHECKPOINT_TAG))
    return ledger.rolled_back and any(snapshot.summary.get(BATCH_ID) == other.state.batch_id for snapshot in had)


def published_since(ledger: Standing, other: Standing) -> bool:
    """Return whether another table has the ledger's batch and later ones: it was loaded after the ledger."""
    has = any(each.summary.get(BATCH_ID) == ledger.state.batch_id for each in other.view.ancestry(other.view.head))
    return has and not left_ahead(ledger, other)


def staged_branch(at: Standing, batch_id: str) -> str | None:
    """Return the newest branch on which the batch was staged."""
    snapshots, branches = at.view.snapshots, at.view.branches
    found = [name for name in stage_branches(at.view) if snapshots[branches[name]].summary.get(BATCH_ID) == batch_id]
    return max(found, key=lambda name: snapshots[branches[name]].committed_at, default=None)


def _share(lake: Lake, spec: TableSpec, ledger: Standing, behind: Standing) -> Share:
    view, batch_id = behind.view, ledger.state.batch_id
    branch = staged_branch(behind, batch_id)
    assert branch is not None and view.head is not None  # noqa: S101 - `why_apart` found a branch
    snapshot = _staged(behind, branch)
    plan = BatchPlan(
        table=view.identifier,
        batch_id=batch_id,
        base_snapshot_id=view.head,
        state=behind.state,
        ranges=(),
        schemas=NO_SCHEMAS,
        topics=(),
        table_uuid=view.uuid,
    )
    base = snapshot.parent_id or 0
    if _follows_keys(view):
        remembered = state_in(snapshot).remembered
        deletes = None if remembered is None else remembered.file
        # its figures were right before the ledger was published
        staged, again = Staged(branch, snapshot.id, base, {}, deletes), _not_again
        return Share(plan, staged, stage_on=again, tags_epoch=has_epoch_tags(spec))
    staged = Staged(branch, snapshot.id, base, _change(lake, spec, behind, snapshot).figures)
    stage_on = partial(_staged_again, lake, spec, branch, snapshot)
    return Share(plan, staged, stage_on, tags_epoch=has_epoch_tags(spec))


def _not_again(now: Standing) -> NoReturn:
    """Look at the tables again: others have committed to one that follows keys, so `why_apart` says what now."""
    del now
    raise OvertakenError


def _change(lake: Lake, spec: TableSpec, at: Standing, staged: Snapshot) -> BatchChange:
    rows = state_in(staged).total().rows - at.state.total().rows
    files = lake.added_files(at.view, staged.id)
    return open_mode(spec).change(Written(files, rows), find_none)


def _staged_again(lake: Lake, spec: TableSpec, branch: str, staged: Snapshot, now: Standing) -> Staged:
    """Stage the files of a branch on the head of `main`, with its state and what others have changed since."""
    names = branch_names(f"{branch}_on_{now.view.head}_", "")
    state, change = replace(state_in(staged), foreign=count_foreign(now)), _change(lake, spec, now, staged)
    try:
        return stage_with_state(lake, now.view, names=names, change=change, state=state, receipt=receipt_in(staged))
    except BaseExpiredError as expired:
        raise OvertakenError from expired


def apart_for_good(spec: TableSpec, here: Places) -> GroupApartError | None:
    """Return why `complete` would halt the group, if these are its tables now."""
    ledger = here[spec.identifier]
    group, prefix = ledger.state.group, f"{spec.database}."
    tables = [each for name, each in here.items() if group is not None and group.has(name.removeprefix(prefix))]
    others = [each for each in tables if each.state.itself != ledger.state.itself]
    behind = [each for each in others if not published_since(ledger, each)]
    problems = [problem for each in behind if (problem := why_apart(ledger, each))]
    return tables_apart(spec.pipeline.name, tables, "; ".join(problems)) if problems else None
