"""Updates of the branches and tags of a table."""

from __future__ import annotations

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as RawSnapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate


def added(snapshot: RawSnapshot, branch: str, tag: str | None = None) -> tuple[TableUpdate, ...]:
    """Return the updates that add a snapshot at the head of a branch, and tag it."""
    tagged = () if tag is None else (point_to(tag, SnapshotRefType.TAG, snapshot.snapshot_id),)
    on_branch = point_to(branch, SnapshotRefType.BRANCH, snapshot.snapshot_id)
    return (AddSnapshotUpdate(snapshot=snapshot), on_branch, *tagged)


def point_to(ref: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=ref,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
