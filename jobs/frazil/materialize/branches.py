"""Branches: each attempt stages its files on its own branch, which no reader sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from frazil.materialize.changed_spec.applied_spec import read_by
from frazil.model.errors import CatalogError, CommitError, CommitUnknownError, ContendedError, FrazilError
from frazil.model.progress import TableState
from frazil.model.receipt import Receipt
from frazil.model.remembered import PuffinFile
from frazil.model.snapshot import TableView
from frazil.model.summary import store
from frazil.modes.mode import BatchChange
from frazil.ports import Lake

STAGE_PREFIX = "frazil_stage_"
ATTEMPTS = 5
"""How often a commit that others overtook is tried again."""


class BaseExpiredError(Exception):
    """The snapshot that a branch was to begin at is gone: others have moved `main` on, and it has expired."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged snapshot. `base` is the snapshot that its branch began at.

    `figures` must be in the snapshot's summary before it becomes visible; dead letters have none. The snapshot has the
    `statistics`, and gets them again when it does. `read_by` says by which spec its records were read; it is None of a
    batch that another process has decided.
    """

    branch: str
    snapshot_id: int
    base: int
    figures: Mapping[str, int]
    statistics: PuffinFile | None = None
    read_by: tuple[str, ...] | None = None


def stage_branches(view: TableView) -> Iterator[str]:
    """Return the staging branches of all attempts: once one is published, the others can never be."""
    return (name for name in view.branches if name.startswith(STAGE_PREFIX))


def branch_names(prefix: str, writer: str) -> Iterator[str]:
    """A new branch name for every attempt of a writer: a late commit lands on an unused branch."""
    attempt = 0
    while True:
        attempt += 1
        yield f"{prefix}{writer}_{attempt}"


def stage_on_branch(  # noqa: PLR0913 - one for each part of the snapshot
    lake: Lake,
    view: TableView,
    *,
    base: int,
    names: Iterator[str],
    change: BatchChange,
    summary: Mapping[str, str],
    document: bytes = b"",
    without: str | None = None,
    statistics: PuffinFile | None = None,
) -> Staged:
    """Stage a change on top of `base`, `without` the rows that meet that condition.

    Raises BaseExpiredError; ContendedError where the catalog refuses, CatalogError where it does not answer, each time.
    """
    for _ in range(ATTEMPTS):
        if base not in view.snapshots:
            raise BaseExpiredError
        branch = next(names)
        try:
            head = lake.stage(
                view,
                base=base,
                branch=branch,
                files=change.files,
                summary=summary,
                document=document,
                without=without,
                deletes=change.deletes,
                statistics=statistics,
            )
            return Staged(branch, head, base, change.figures, statistics)
        except CommitError as failed:
            reason: Exception = failed
        except CatalogError:
            if has_expired(lake, view.identifier, base):  # an erasure deletes files at once
                raise BaseExpiredError from None
            raise
        fresh = lake.load(view.identifier)
        if fresh is not None:
            view = fresh
        if branch in view.branches:
            return Staged(branch, view.branches[branch], base, change.figures, statistics)
    raise given_up(view.identifier, "stage", reason) from reason


def stage_with_state(
    lake: Lake,
    view: TableView,
    *,
    names: Iterator[str],
    change: BatchChange,
    state: TableState,
    receipt: Receipt | None,
) -> Staged:
    """Stage a batch on the head of `main`: a change, the state after it, and its receipt. Raises as `stage_on_branch`.

    The file of the deletes that the state remembers is the snapshot's from now on: a branch may rest for days.
    """
    assert view.head is not None  # noqa: S101 - a table with a state has a snapshot that carries it
    stored = store(state, receipt)
    staged = stage_on_branch(
        lake,
        view,
        base=view.head,
        names=names,
        change=change,
        summary=stored.summary,
        document=stored.document,
        statistics=None if state.remembered is None else state.remembered.file,
    )
    return replace(staged, read_by=read_by(view))


def has_expired(lake: Lake, table: str, snapshot_id: int) -> bool:
    """Return whether a table has a snapshot no longer."""
    fresh = lake.load(table)
    return fresh is not None and snapshot_id not in fresh.snapshots


OTHER_WRITER = "look for another process that keeps committing to the table; the next run continues"


def given_up(table: str, step: str, reason: Exception, *, hint: str = OTHER_WRITER) -> ContendedError | CatalogError:
    """Return the error after the last attempt: either every commit was rejected, or the catalog never answered.

    `hint` is for the first.
    """
    said = reason.what if isinstance(reason, FrazilError) else reason
    what = f"{table}: could not {step} after {ATTEMPTS} attempts, the last one failed with: {said}"
    if isinstance(reason, CommitUnknownError):
        return CatalogError(what, hint="check that catalog and storage are up and not full; the next run continues")
    return ContendedError(what, hint=hint)
