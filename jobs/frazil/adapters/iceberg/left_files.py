"""Find the files in a table's data folder that a Delta log has left."""

from __future__ import annotations

from collections.abc import Collection

from pyiceberg.table import Table

from frazil.adapters.iceberg.listing import list_objects
from frazil.adapters.iceberg.reachable import METADATA_SUFFIXES, metadata_files, metadata_of_another, plain
from frazil.model.errors import CatalogError


def left_files(table: Table, left: Collection[str]) -> list[str]:
    """Return the addresses of those paths that are files in the data folder. Snapshots may have some of them.

    Raises CatalogError if the folder has metadata of another table: its log may have been this folder's, and its files
    may be needed. That is one that was renamed, or that was dropped and can be recovered.
    """
    if not left:
        return []
    root = plain(table.location()).rstrip("/") + "/"
    paths = frozenset(left)
    found = [each.address for each in list_objects(table.io, f"{root}data")]
    files = [address for address in found if address.removeprefix(root) in paths]
    if files:
        _check_alone(table, root)
    return files


def _check_alone(table: Table, root: str) -> None:
    own = {plain(address) for address in metadata_files(table)}
    found = [each.address for each in list_objects(table.io, f"{root}metadata")]
    metadata = [address for address in found if address.endswith(METADATA_SUFFIXES) and address not in own]
    other = metadata_of_another(table.io, str(table.metadata.table_uuid), metadata)
    if other is not None:
        raise CatalogError(f"another table has files in the folder, by {other}", hint="see the clean-up of orphans")
