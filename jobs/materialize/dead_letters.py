"""Dead letters become visible exactly when their batch does, in two steps.

They are prepared on a branch of their own table before the rows are published, and revealed right after. Whoever
comes next finishes a prepared branch whose batch the rows carry; a branch whose batch they do not carry is dropped
once another batch has been published, when it never can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobs.materialize.layout import DEAD_LETTER_COLUMNS
from jobs.materialize.stage import ATTEMPTS, Staged, branch_names, contended, stage
from jobs.materialize.state import CHECKPOINT_TAG
from jobs.model.errors import ForeignOwnerError, ForeignTableError, StateLostError
from jobs.model.ingested import WrittenFile
from jobs.model.snapshot import Snapshot, TableView
from jobs.model.spec import TableSpec
from jobs.model.summary import BATCH_ID, EPOCH, FORMAT_VERSION, PIPELINE, VERSION
from jobs.ports import CommitRejectedError, CommitUnknownError, Lake

PREPARED_PREFIX = "frazil_prepared_"
NO_BATCH = ""


def ensure_dead_letters(lake: Lake, spec: TableSpec) -> TableView:
    """The spec's dead-letter table, made if it is not there."""
    view = lake.load(spec.dead_letters_identifier)
    if view is None:
        try:
            view = lake.create(
                spec.dead_letters_identifier,
                DEAD_LETTER_COLUMNS,
                partition_by=(),
                properties={},
                summary=_summary(spec.pipeline, epoch=0, batch_id=NO_BATCH),
            )
        except CommitRejectedError:
            view = _load(lake, spec.dead_letters_identifier)
    check_owner(view, spec)
    return view


def check_owner(view: TableView, spec: TableSpec) -> None:
    """Raises ForeignTableError or ForeignOwnerError where these are not the spec's dead letters."""
    owner = next((s.summary[PIPELINE] for s in view.ancestry(view.head) if PIPELINE in s.summary), None)
    if owner is None:
        raise ForeignTableError(
            f"the table {view.identifier}, which would hold the dead letters, exists and Frazil did not create it",
            hint="rename or drop it, or choose another `table` for this spec",
        )
    if owner != spec.pipeline:
        raise ForeignOwnerError(
            f"the dead letters in {view.identifier} belong to the pipeline {owner}, not to {spec.pipeline}",
            hint="give this spec another `table`",
        )


def prepare(
    lake: Lake, view: TableView, *, pipeline: str, epoch: int, batch_id: str, writer: str, files: Sequence[WrittenFile]
) -> None:
    """Put a batch's dead letters on a branch that nobody reads."""
    base = _base_for(view, epoch)
    if not files and base == view.head:
        return
    names = branch_names(PREPARED_PREFIX, writer + "_" + batch_id)
    stage(lake, view, base=base, names=names, files=files, summary=_summary(pipeline, epoch=epoch, batch_id=batch_id))


def reveal(lake: Lake, identifier: str, *, batch_id: str) -> None:
    """Make the prepared dead letters of a published batch visible, if there are any and nobody else has."""
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        view = _load(lake, identifier)
        prepared = _prepared_of(view, batch_id)
        if prepared is None or _carries(view, batch_id):
            return
        if prepared.base != _base_for(view, _epoch(view.snapshots[prepared.snapshot_id])):
            _stage_again(lake, view, prepared)
            continue
        try:
            lake.publish(view, branch=prepared.branch, tag=CHECKPOINT_TAG, drop=list(_branches_of(view, batch_id)))
        except (CommitRejectedError, CommitUnknownError) as failed:
            reason = failed
    if not _carries(_load(lake, identifier), batch_id):
        raise contended(identifier, "reveal its dead letters", reason) from reason


def drop_others(lake: Lake, identifier: str, *, epoch: int, batch_id: str) -> None:
    """Drop prepared branches of batches that can never be published, right after `batch_id` was.

    Those of later epochs are a successor's: whoever published this one may have slept since.
    """
    view = _load(lake, identifier)
    prepared = ((name, view.snapshots[head]) for name, head in _prepared(view))
    others = [n for n, s in prepared if _epoch(s) <= epoch and s.summary.get(BATCH_ID) != batch_id]
    try:
        lake.drop_branches(view, others)
    except (CommitRejectedError, CommitUnknownError):
        return  # Whoever publishes next drops them.


def _stage_again(lake: Lake, view: TableView, prepared: Staged) -> None:
    """The table moved since (it was compacted, say): the same files, on top of where it stands now."""
    snapshot = view.snapshots[prepared.snapshot_id]
    base = _base_for(view, _epoch(snapshot))
    summary = {name: value for name, value in snapshot.summary.items() if name.startswith("frazil.")}
    names = branch_names(f"{prepared.branch}_on_{base}_", "")
    stage(lake, view, base=base, names=names, files=lake.added_files(view, prepared.snapshot_id), summary=summary)
    fresh = _load(lake, view.identifier)
    lake.drop_branches(fresh, [prepared.branch])


def _base_for(view: TableView, epoch: int) -> int:
    """Where dead letters of an epoch belong: on the head, or before those of a batch that was rolled back.

    The rows' table was rolled back if dead letters of this epoch, or of a later one, are visible before it is
    published: they are read again, and must not stand twice.
    """
    base = view.head
    for snapshot in view.ancestry(view.head):
        if EPOCH in snapshot.summary and _epoch(snapshot) >= epoch:
            base = snapshot.parent_id
    if base is None:
        raise StateLostError(
            f"the dead letters in {view.identifier} have no snapshot left from before epoch {epoch}",
            hint="see docs/operate.md, StateLostError",
        )
    return base


def _prepared(view: TableView) -> Iterator[tuple[str, int]]:
    return ((name, head) for name, head in view.branches.items() if name.startswith(PREPARED_PREFIX))


def _branches_of(view: TableView, batch_id: str) -> Iterator[str]:
    return (name for name, head in _prepared(view) if view.snapshots[head].summary.get(BATCH_ID) == batch_id)


def _prepared_of(view: TableView, batch_id: str) -> Staged | None:
    branch = max(
        _branches_of(view, batch_id), key=lambda b: view.snapshots[view.branches[b]].committed_at, default=None
    )
    if branch is None:
        return None
    head = view.branches[branch]
    return Staged(branch, head, view.snapshots[head].parent_id or 0)


def _carries(view: TableView, batch_id: str) -> bool:
    return any(snapshot.summary.get(BATCH_ID) == batch_id for snapshot in view.ancestry(view.head))


def _epoch(snapshot: Snapshot) -> int:
    return int(snapshot.summary[EPOCH])


def _summary(pipeline: str, *, epoch: int, batch_id: str) -> dict[str, str]:
    return {VERSION: FORMAT_VERSION, PIPELINE: pipeline, EPOCH: str(epoch), BATCH_ID: batch_id}


def _load(lake: Lake, identifier: str) -> TableView:
    view = lake.load(identifier)
    if view is None:
        raise StateLostError(
            f"the table {identifier}, which holds the dead letters, was dropped",
            hint="restore it: the proof of completeness needs it",
        )
    return view
