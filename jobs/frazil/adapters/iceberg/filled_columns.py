"""The columns of a table that have a value in a snapshot's data files, by the statistics of manifests and footers."""

from __future__ import annotations

from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from frazil.adapters.iceberg.former_columns import held_in, leaves_of
from frazil.adapters.iceberg.live_rows import files_in
from frazil.adapters.iceberg.scan import reading

Ids = frozenset[int]


def filled_columns(identifier: str, table: Table, snapshot: Snapshot) -> frozenset[str]:
    """Return the columns with a value in some row, also in rows that are marked as deleted.

    Only files whose manifest does not count the nulls of every column are opened. Raises CatalogError.
    """
    leaves = {leaf: column.name for column in table.schema().fields for leaf in leaves_of(column)}
    every, filled, unclear = frozenset(leaves), set[int](), list[str]()
    with reading(identifier):
        manifests = [each for each in snapshot.manifests(table.io) if each.content is ManifestContent.DATA]
        for file in files_in(table.io, manifests):
            counted = _counted(file) & every
            filled |= {leaf for leaf in counted if file.null_value_counts[leaf] < file.value_counts[leaf]}
            if not every - filled <= counted:
                unclear.append(file.file_path)
        filled |= held_in(table, unclear)
    return frozenset(leaves[leaf] for leaf in filled & every)


def _counted(file: DataFile) -> Ids:
    return frozenset(file.value_counts or ()) & frozenset(file.null_value_counts or ())
