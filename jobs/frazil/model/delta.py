"""A Delta log over an Iceberg table's files, as values: what it says now, and what its next version must say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READER_VERSION = 1
WRITER_VERSION = 2


@dataclass(frozen=True, slots=True)
class DeltaMetadata:
    """What a version says of all files: the schema in Delta's JSON, with Iceberg's field ids in the fields' metadata.

    There are no partition columns: Iceberg's transforms have none in Delta, an empty string cannot be the value of
    one, and the statistics of each file prune as well.
    """

    schema: str
    reader_version: int = READER_VERSION
    writer_version: int = WRITER_VERSION
    partition_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live data file of a snapshot. `path` is relative to the table's location; None if the file is elsewhere.

    `modified_ms` is when the snapshot that added it was committed. Statistics are by Iceberg field id.
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
    """All that a snapshot consists of. Delete files are only counted."""

    data: tuple[TableFile, ...]
    position_deletes: int = 0
    equality_deletes: int = 0


@dataclass(frozen=True, slots=True)
class FileShape:
    """The columns that a file's footer names, in Iceberg's JSON; None where it has no field ids."""

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

    `is_removable` is False if another writer encoded the path in a way that delta-rs cannot repeat.
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

    `new_columns` are fields in Delta's JSON, to be merged into the schema by a version of their own just before; a
    crash between the two leaves columns without values.
    """

    snapshot_id: int
    base: int
    metadata: DeltaMetadata
    add: tuple[AddFile, ...]
    remove: tuple[RemoveFile, ...]
    new_columns: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        return self.base + (2 if self.new_columns else 1)


@dataclass(frozen=True, slots=True)
class ReplaceLog:
    """A version that keeps no file and states its metadata anew: how a rename or a wider type arrives."""

    snapshot_id: int
    base: int
    metadata: DeltaMetadata
    add: tuple[AddFile, ...]

    @property
    def version(self) -> int:
        return self.base + 1


@dataclass(frozen=True, slots=True)
class LogIsCurrent:
    """The newest version stands for the snapshot already, and names its files and columns."""

    version: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Withheld:
    """The snapshot cannot be said in reader version 1; the log stays as it is, true of an older snapshot."""

    snapshot_id: int
    reason: str


LogWrite = BeginLog | ExtendLog | ReplaceLog
LogPlan = LogWrite | LogIsCurrent | Withheld


@dataclass(frozen=True, slots=True)
class LogWritten:
    """A version for the snapshot was just written: readers that do not poll need a refresh."""

    version: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The log could not be brought up to date. The rows are published all the same; the next run tries again."""

    problem: str
    hint: str


Announced = LogWritten | LogIsCurrent | Withheld | LogFailed
"""What came of announcing a table's head to readers of Delta."""
