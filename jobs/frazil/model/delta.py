"""A Delta log over an Iceberg table's files, as values: its current content and its next version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

READER_VERSION = 1
WRITER_VERSION = 2

DELTA_TAG = "frazil_delta"
"""Tag that keeps the files of the newest Delta version through any expiry: it is on that version's snapshot.

It moves after that version is written: until then it keeps the files of the one before.
"""

NEXT_DELTA_TAG = "frazil_delta_next"
"""Keeps the files of a version that is about to be written, where no other tag of ours does."""


@dataclass(frozen=True, slots=True)
class DeltaMetadata:
    """The metadata of a version: the schema in Delta's JSON, with Iceberg's field ids in the metadata of the fields.

    There are no partition columns: Delta has no counterpart to Iceberg's transforms and no empty string as a partition
    value, and the statistics of each file also allow pruning. `skipping` is the property that names the columns by
    whose bounds readers skip files; None if the log does not set it.
    """

    schema: str
    reader_version: int = READER_VERSION
    writer_version: int = WRITER_VERSION
    partition_columns: tuple[str, ...] = ()
    skipping: str | None = None


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live data file of a snapshot. `path` is relative to the table's location; None if the file is elsewhere.

    `modified_ms` is when the snapshot that added the file was committed. The statistics are by Iceberg field id.
    """

    path: str | None
    location: str
    format: str
    rows: int
    size: int
    modified_ms: int
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a snapshot. Delete files are only counted."""

    data: tuple[TableFile, ...]
    position_deletes: int = 0
    equality_deletes: int = 0


@dataclass(frozen=True, slots=True)
class FileShape:
    """The columns in a file's footer, as Iceberg's JSON; None if the footer has no field ids."""

    location: str
    schema_json: str | None


@dataclass(frozen=True, slots=True)
class AddFile:
    path: str
    size: int
    modified_ms: int
    stats: str
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class RemoveFile:
    path: str
    size: int
    removed_ms: int
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file that a log names. `path` is decoded: relative to the table's location, or absolute.

    `is_removable` is False if another writer encoded the path in a way that delta-rs cannot reproduce.
    """

    path: str
    size: int
    is_removable: bool = True


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The newest version of a log. `snapshot_id` is the Iceberg snapshot that it records, if any."""

    version: int
    metadata: DeltaMetadata
    snapshot_id: int | None
    files: tuple[LoggedFile, ...]


@dataclass(frozen=True, slots=True)
class Removals:
    """The decoded paths of the files that one version removed, and when it was committed.

    The time is that of the storage or of the writer, whichever is later.
    """

    committed_at: datetime
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BeginLog:
    """Version 0: the whole snapshot."""

    snapshot_id: int
    metadata: DeltaMetadata
    add: tuple[AddFile, ...]

    @property
    def version(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ExtendLog:
    """The difference between the newest version and a snapshot.

    `new_columns` are fields in Delta's JSON. A separate version merges them into the schema first; a crash between the
    two versions leaves columns without values. `sets_skipping`: a separate version sets that property last.
    """

    snapshot_id: int
    base: int
    metadata: DeltaMetadata
    add: tuple[AddFile, ...]
    remove: tuple[RemoveFile, ...]
    new_columns: tuple[str, ...] = ()
    sets_skipping: bool = False

    @property
    def version(self) -> int:
        return self.base + bool(self.new_columns) + 1 + self.sets_skipping


@dataclass(frozen=True, slots=True)
class ReplaceLog:
    """A version that removes every file and writes the metadata and all files again, after a rename or a wider type.

    `sets_skipping`: a separate version sets that property after it.
    """

    snapshot_id: int
    base: int
    metadata: DeltaMetadata
    add: tuple[AddFile, ...]
    sets_skipping: bool = False

    @property
    def version(self) -> int:
        return self.base + 1 + self.sets_skipping


@dataclass(frozen=True, slots=True)
class LogIsCurrent:
    """The newest version already describes the snapshot, its files and its columns."""

    version: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Withheld:
    """Reader version 1 of Delta cannot represent the snapshot. The log keeps describing an older snapshot.

    `version` is the log's newest, if it is complete: it describes the newest snapshot that can be represented.
    """

    snapshot_id: int
    reason: str
    version: int | None = None


LogWrite = BeginLog | ExtendLog | ReplaceLog
LogPlan = LogWrite | LogIsCurrent | Withheld


@dataclass(frozen=True, slots=True)
class LogWritten:
    """A version for the snapshot was written. Readers that do not poll need a refresh."""

    version: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class LogFailed:
    """Writing the log failed. The rows are published nevertheless, and the next run tries again."""

    problem: str
    hint: str


Announced = LogWritten | LogIsCurrent | Withheld | LogFailed
"""The result of announcing a table's head to readers of Delta."""


def log_after(log: DeltaLog | None, write: LogWrite) -> DeltaLog:
    """Return what a log contains after a version was written to it."""
    kept: tuple[LoggedFile, ...] = ()
    if log is not None and isinstance(write, ExtendLog):
        gone = {file.path for file in write.remove}
        kept = tuple(file for file in log.files if file.path not in gone)
    added = tuple(LoggedFile(file.path, file.size) for file in write.add)
    return DeltaLog(write.version, write.metadata, write.snapshot_id, kept + added)
