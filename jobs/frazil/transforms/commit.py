"""The rows of a batch become visible with the position after it: one compare-and-set on the head of `main`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.batch_age import is_old
from frazil.materialize.branches import ATTEMPTS, BaseExpiredError, given_up, stage_branches, stage_on_branch
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.materialize.rewrite_tags import rewrite_tags
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.columns import Column
from frazil.model.errors import (
    CatalogError,
    CommitError,
    CommitRejectedError,
    CountMismatchError,
    FormatVersionError,
    SpecError,
)
from frazil.model.ingested import WrittenFile
from frazil.model.snapshot import TableView
from frazil.model.transforms import SECONDS, Position, TransformSpec, TransformState
from frazil.modes.mode import BatchChange
from frazil.ports import Lake


class OvertakenError(Exception):
    """Another commit moved `main` while the batch was computed."""


def loaded(lake: Lake, identifier: str) -> TableView:
    """Return the table. Raises CatalogError if it has been dropped."""
    view = lake.load(identifier)
    if view is None:
        raise CatalogError(f"the table {identifier} no longer exists", hint="look for what drops it, and run again")
    return view


def ensure(lake: Lake, spec: TransformSpec, columns: Sequence[Column], state: TransformState) -> TableView:
    """Return the table of a transformation, which is created, empty. The caller has seen that it does not exist.

    Raises OvertakenError if it exists by now: it may have rows already. Otherwise raises as `create`.
    """
    try:
        return create(lake, spec, columns, state)
    except CommitRejectedError as there:
        loaded(lake, spec.identifier)
        raise OvertakenError from there


def create(lake: Lake, spec: TransformSpec, columns: Sequence[Column], state: TransformState) -> TableView:
    """Create the table of a transformation, empty.

    Raises SpecError for a partitioning that does not fit, CommitRejectedError if another process was first.
    """
    try:
        return lake.create(
            spec.identifier,
            columns,
            partition_by=spec.partition_by,
            sort_by=spec.sort_by,
            properties=TABLE_PROPERTIES,
            summary=state.summary(),
            tag=CHECKPOINT_TAG,
        )
    except SpecError as misfit:
        raise SpecError(f"{spec.source_file}: {misfit.what}", hint=misfit.hint) from misfit


def unmoved(view: TableView, head: int | None) -> TableView:
    """Return a table as it was read again. Raises OvertakenError if its head is not the one that a batch began with."""
    if view.head != head:
        raise OvertakenError
    return view


def publish(
    lake: Lake,
    view: TableView,
    change: BatchChange,
    state: TransformState,
    *,
    names: Iterator[str],
    began: float | None = None,
) -> int:
    """Stage a change on the head of the view and make it visible. Return the snapshot.

    Raises OvertakenError if another commit was first, or if `began`, `elapsed_seconds()` before the first file, is so
    long ago that clean-up may have deleted the files; CountMismatchError if the catalog's figures differ from the
    change, ContendedError and CatalogError.
    """
    assert view.head is not None  # noqa: S101 - a table is created with a snapshot
    took = {} if began is None else {SECONDS: f"{elapsed_seconds() - began:.3f}"}
    summary, document = state.summary() | took, document_of(state)
    try:
        staged = stage_on_branch(
            lake, view, base=view.head, names=names, change=change, summary=summary, document=document
        )
    except BaseExpiredError as expired:
        raise OvertakenError from expired
    reason: Exception = OvertakenError()
    for _ in range(ATTEMPTS):
        view = loaded(lake, view.identifier)
        if any(snapshot.id == staged.snapshot_id for snapshot in view.ancestry(view.head)):
            return staged.snapshot_id
        is_stale = began is not None and is_old(began)
        if view.head != staged.base or staged.branch not in view.branches or is_stale:
            _drop(lake, view, staged.branch)
            raise OvertakenError
        _last_look(view, staged.snapshot_id, change)
        try:
            drop = [*stage_branches(view), *rewrite_tags(view)]
            lake.publish(view, branch=staged.branch, tag=CHECKPOINT_TAG, drop=drop)
        except CommitError as failed:
            reason = failed
    view = loaded(lake, view.identifier)
    if view.head == staged.snapshot_id:
        return staged.snapshot_id
    raise given_up(view.identifier, "publish", reason) from reason


def document_of(state: TransformState) -> bytes:
    """Return what a snapshot with the state has beside its summary."""
    return state.met.document() if state.met.stretches else b""


def _drop(lake: Lake, view: TableView, branch: str) -> None:
    with suppress(CommitError):  # the next publish drops it
        lake.drop_branches(view, [branch])


def _last_look(view: TableView, snapshot_id: int, change: BatchChange) -> None:
    found = {name: view.snapshots[snapshot_id].figure(name) for name in change.figures}
    if found != change.figures:
        raise CountMismatchError(
            f"{view.identifier}: a batch was staged with {found}, expected {dict(change.figures)};"
            " nothing was published",
            hint="this is a defect in Frazil: report it with the log; the table is intact",
        )


def appended(files: Sequence[WrittenFile]) -> BatchChange:
    return BatchChange(files, {"added-records": sum(file.rows for file in files)})


def keep_from(lake: Lake, source: TableView, spec: TransformSpec, position: Position) -> None:
    """Point the tag of the transformation at a position of its source, so that later snapshots do not expire.

    Others may commit meanwhile; then it is tried again, and at last left behind, where it keeps more. A table of a
    later format version gets no tag: its rows can be read all the same.
    """
    for _ in range(ATTEMPTS):
        if source.tags.get(spec.tag) == position.snapshot_id or position.snapshot_id not in source.snapshots:
            return
        try:
            lake.move_tags(source, put={spec.tag: position.snapshot_id})
        except FormatVersionError:
            return
        except CommitError:
            source = loaded(lake, source.identifier)
        else:
            return
