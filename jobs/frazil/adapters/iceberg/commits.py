"""Commits of catalogs without a server: the metadata's next version, made and written by this process.

PyIceberg's own way copies all of the metadata several times a commit, reads a metadata file again that this process
has just written, and stamps with the local clock, whatever the table has. A REST catalog does all of this on its
server, so its commits stay as the library makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from pyiceberg.typedef import Identifier

from frazil.adapters.iceberg.recent import Recent
from frazil.model.errors import FormatVersionError

WRITABLE_FORMAT = 2
"""PyIceberg writes no metadata of later format versions."""

SNAPSHOTS_KEPT = 20_000
"""How many snapshots, over all tables, are remembered between two commits: about 5 KB of memory each."""


def local_clock() -> int:
    """Return the time in milliseconds since the epoch."""
    return time_ns() // 1_000_000


def commit_time(metadata: TableMetadata, now_ms: int) -> int:
    """Return the time to stamp a commit with: now, or right after the newest stamp that the table has.

    Iceberg's Java code refuses a table whose stamps go back by more than a minute ("Invalid update timestamp",
    "Expected sorted snapshot log entries"), so a clock that is behind must not show.
    """
    logged = [log[-1].timestamp_ms for log in (metadata.snapshot_log, metadata.metadata_log) if log]
    return max(now_ms, max([metadata.last_updated_ms, *logged]) + 1)


class QuickCommits(MetastoreCatalog):
    """`commit_table` and `load_table` of a PyIceberg catalog without copies. Mixed in before the catalog."""

    now_ms: Callable[[], int] = staticmethod(local_clock)
    _known: Recent[TableMetadata]

    def remembered(self, location: str) -> TableMetadata | None:
        """Return the metadata in a file that this process has read or written; such a file never changes."""
        return self._recent().get(location)

    def remember(self, location: str, metadata: TableMetadata) -> None:
        self._recent().put(location, metadata, weight=len(metadata.snapshots))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        _check_writable(table)
        committed = super().commit_table(table, requirements, updates)  # type: ignore[safe-super]  # the catalog's own
        self._recent().drop(table.metadata_location)
        self.remember(committed.metadata_location, committed.metadata)
        return committed

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None:
            return super()._update_and_stage_table(None, table_identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(current_table.metadata)
        metadata = next_version(current_table, updates, now_ms=self.now_ms())
        version = self._parse_metadata_version(current_table.metadata_location) + 1
        locations = load_location_provider(metadata.location, metadata.properties)
        location = locations.new_table_metadata_file_location(version)
        io = self._load_file_io(properties=metadata.properties, location=location)
        return StagedTable(table_identifier, metadata, location, io, self)

    def _recent(self) -> Recent[TableMetadata]:
        if "_known" not in vars(self):
            self._known = Recent(SNAPSHOTS_KEPT)
        return self._known


def _check_writable(table: Table) -> None:
    """Raise FormatVersionError for a table whose metadata PyIceberg does not write. A REST catalog writes it itself."""
    if table.metadata.format_version > WRITABLE_FORMAT:
        raise FormatVersionError(
            f"the table {'.'.join(table.name())} has Iceberg format version {table.metadata.format_version}, and with a"
            f" jdbc or glue catalog Frazil changes tables up to version {WRITABLE_FORMAT} only, also where it only tags"
            " a snapshot, as an export does",
            hint="reach the table through a REST catalog (`catalog: {type: rest, …}`), or see docs/operate.md,"
            " FormatVersionError",
        )


def next_version(current: Table, updates: Sequence[TableUpdate], *, now_ms: int) -> TableMetadata:
    """Return a table's metadata with updates applied; what they leave alone is shared and not copied.

    Raises CommitFailedException where an update does not fit what the table has become.
    """
    base = metadata = current.metadata
    context = _TableMetadataUpdateContext()
    try:
        for update in updates:
            metadata = _apply_table_update(update, metadata, context)
    except ValueError as outdated:
        raise CommitFailedException(str(outdated)) from outdated
    if not context.has_changes():
        return base
    added = [each.snapshot.timestamp_ms for each in updates if isinstance(each, AddSnapshotUpdate)]
    stamp = max(commit_time(base, now_ms), *added) if added else commit_time(base, now_ms)
    metadata = _update_table_metadata_log(metadata, current.metadata_location, base.last_updated_ms)
    log = _stamped(metadata.snapshot_log, base.snapshot_log, stamp)
    metadata = metadata.model_copy(update={"last_updated_ms": stamp, "snapshot_log": log})
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata


def _stamped(log: list[SnapshotLogEntry], before: list[SnapshotLogEntry], stamp: int) -> list[SnapshotLogEntry]:
    """Return the snapshot log with the entries of this commit at its time."""
    kept = {id(entry) for entry in before}
    return [e if id(e) in kept else SnapshotLogEntry(snapshot_id=e.snapshot_id, timestamp_ms=stamp) for e in log]
