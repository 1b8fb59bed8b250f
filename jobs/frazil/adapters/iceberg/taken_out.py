"""Rows that meet a condition are taken out of a table on a branch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import TableUpdate
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
