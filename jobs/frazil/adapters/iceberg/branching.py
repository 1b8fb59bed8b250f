"""Updates of a table that put snapshots on branches and tags."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as RawSnapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate
from pyiceberg.table.update.snapshot import ManageSnapshots


def taken_out(
    table: Table, base: int, condition: str, branch: str, summary: Mapping[str, str]
) -> tuple[Table, tuple[TableUpdate, ...]]:
    """Return the table as it is with a branch at `base` without the rows that meet a condition, and how it gets there.

    The table has not been changed yet.
    """
    transaction = Transaction(table, autocommit=False)
    ManageSnapshots(transaction).create_branch(snapshot_id=base, branch_name=branch).commit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no row may meet the condition
        transaction.delete(condition, snapshot_properties=dict(summary), branch=branch)
    changed = Table(table.name(), transaction.table_metadata, table.metadata_location, table.io, table.catalog)
    return changed, transaction._updates


def added(snapshot: RawSnapshot, branch: str, tag: str | None = None) -> tuple[TableUpdate, ...]:
    """Return the updates that add a snapshot at the head of a branch, and tag it."""
    tagged = () if tag is None else (point(tag, SnapshotRefType.TAG, snapshot.snapshot_id),)
    on_branch = point(branch, SnapshotRefType.BRANCH, snapshot.snapshot_id)
    return (AddSnapshotUpdate(snapshot=snapshot), on_branch, *tagged)


def point(ref: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=ref,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
