"""What the steps need from external systems, as Protocols; `adapters/` implements them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.delta import DeltaLog, FileShape, LogWrite, Removals, TableFile, TableFiles
from frazil.model.expiry import Cleaned, Expiry, Paths
from frazil.model.ingested import Deletion, DroppedFile, IngestTask, TaskResult, WrittenFile
from frazil.model.plan import OffsetRange, TopicFacts
from frazil.model.probe import FoundRows, ProbeTask, StoredFile, Within
from frazil.model.remembered import PuffinFile
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.schemas import RegisteredSchema, SchemaDefinition, SchemaId
from frazil.model.secret import SettingValue
from frazil.model.secret_history import SecretHistory
from frazil.model.snapshot import TableView
from frazil.model.snowflake import Served
from frazil.model.spec import Start
from frazil.model.updates import UpdateTask
from frazil.records import OptionalFields, Records


class SchemaRegistry(Protocol):
    """A schema registry. Ids are resolved once a process."""

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Return the schema; None if the registry lacks the id (remembered for a minute). RegistryError: no answer."""
        ...

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        """Return whether `by_id` returns None without a request."""
        ...

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, or None if it does not exist. Raises RegistryError as `by_id`."""
        ...

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """Return a version of a subject. Raises SubjectMissingError, which names those that exist, and as `by_id`."""
        ...

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        """Return a schema with those that it refers to, as UNREGISTERED. Raises RegistryError if one is missing."""
        ...

    def subjects_under(self, prefix: str) -> Collection[str]:
        """Return all subjects whose names begin with `prefix`. Raises RegistryError if the registry does not answer."""
        ...


class Topics(Protocol):
    """The broker's view of topics. Methods raise BrokerError if no broker answers, or one refuses."""

    def describe(self, topic: str) -> TopicFacts | None:
        """Return the topic's partitions and offsets now, or None if it does not exist."""
        ...

    def names(self) -> Collection[str]:
        """Return the topics that this user may see, internal ones included."""
        ...

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        """Return the first offset of each partition for a table whose spec has this `start`."""
        ...


class TaskRunner(Protocol):
    """Runs tasks, each to success or not at all, and returns what the successful attempt of each returned."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that the cluster runs at the same time; 1 before `start`."""
        ...

    def start(self) -> object:
        """Start what runs the tasks, if it is not running."""
        ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        """Return the result of each task, in order; `name` is shown in Spark's interface.

        Raises TaskFailedError if a task failed at every attempt, and the FrazilError that a task returned.
        """
        ...

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        """Return the rows that the tasks find. Raises as `run`."""
        ...

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        """Return the files in which the tasks wrote rows anew. Raises as `run`."""
        ...

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        """Return what the tasks wrote. Raises as `run`."""
        ...

    def stop(self) -> None: ...


class RebuiltTables(Protocol):
    """Tables of groups of which a rebuild has made everything ready (docs/decisions/0053)."""

    def rebuilt(self, view: TableView) -> TableView | None:
        """Return the table as `take_rebuilt` makes it; None if no rebuild has made anything ready."""
        ...

    def take_rebuilt(self, view: TableView, *, tags: Sequence[str], statistics: PuffinFile | None = None) -> None:
        """Make what `RebuildLake.make_ready` left the table that readers see, if `main` is still at the view's head."""
        ...


class Lake(RebuiltTables, Protocol):
    """Iceberg tables in one catalog. Every commit is a single attempt; callers decide what to do if it fails.

    Each method raises CatalogError if the catalog or the storage does not answer. Those that commit raise
    CommitRejectedError if the table has changed since the view, and CommitUnknownError if the outcome is unknown.
    """

    storage: Mapping[str, SettingValue]
    """How tasks open the same storage."""

    def load(self, identifier: str) -> TableView | None: ...

    def create(
        self,
        identifier: str,
        columns: Sequence[Column],
        *,
        partition_by: Sequence[str],
        properties: Mapping[str, str],
        summary: Mapping[str, str],
        document: bytes = b"",
        tag: str | None = None,
        sort_by: Sequence[str] = (),
    ) -> TableView:
        """Make a table with one empty snapshot that carries `summary` and `document`, and tag it, in one commit."""
        ...

    def begin(self, view: TableView, summary: Mapping[str, str], *, document: bytes, tag: str) -> None:
        """Put an empty, tagged snapshot that carries both on `main`, if its head is still the view's."""
        ...

    def stage(  # noqa: PLR0913 - one for each part of the snapshot
        self,
        view: TableView,
        *,
        base: int,
        branch: str,
        files: Sequence[WrittenFile],
        summary: Mapping[str, str],
        document: bytes = b"",
        without: str | None = None,
        deletes: Sequence[Deletion] = (),
        statistics: PuffinFile | None = None,
    ) -> int:
        """Append files on a new branch that begins at the snapshot `base`; the new snapshot's id.

        It has the `statistics`, `summary` in the table's metadata, and `document` in the header of its manifest list.
        `without` is a condition in Iceberg's filter language: rows that meet it go first. `deletes` are rows of files
        of `base` or of `files`, or whole files of `base`, that it lacks. Raises CommitRejectedError if one is gone.
        """
        ...

    def rewrite(
        self,
        view: TableView,
        *,
        files: Sequence[WrittenFile],
        dropped: Sequence[DroppedFile],
        summary: Mapping[str, str],
        figures: Mapping[str, int],
        tag_prefix: str,
    ) -> None:
        """Put `files` in the place of those that are dropped, on `main`, if its head is still the view's.

        The snapshot is a `replace`: the table has the same rows. It gets a tag of its id after `tag_prefix`. Raises
        CountMismatchError unless its summary has `figures`.
        """
        ...

    def write_blob(self, view: TableView, content: bytes) -> PuffinFile:
        """Write a file that no snapshot has yet."""
        ...

    def read_blob(self, view: TableView, path: str) -> bytes | None:
        """Return what `write_blob` wrote; None if the file is gone, or is not such a file."""
        ...

    def stored_files(self, view: TableView, within: Within | None = None) -> Sequence[StoredFile]:
        """Return the head's data files with rows `within`. Raises CatalogError also if rows are deleted by equality."""
        ...

    def storage_time(self, view: TableView) -> datetime:
        """Return the time by the clock of the table's storage, which is that of a small file which it writes."""
        ...

    def added_files(self, view: TableView, snapshot_id: int) -> Sequence[WrittenFile]:
        """The data files that a snapshot added."""
        ...

    def read(
        self,
        view: TableView,
        *,
        columns: Sequence[str],
        equal: Mapping[str, object],
        present: Collection[str] = (),
        between: tuple[str, int, int] | None = None,
        without: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of the view's head in small batches, but for those in the files `without`.

        `equal` are values that columns must have, and columns that are `present` may not be null; `between` is a
        column, of numbers or of times in microseconds, and the range `[start, end)` of its values.
        """
        ...

    def publish(
        self,
        view: TableView,
        *,
        branch: str,
        tag: str,
        drop: Sequence[str],
        alone: bool = False,
        statistics: PuffinFile | None = None,
        more_tags: Sequence[str] = (),
    ) -> None:
        """Move `main` and the tags from the view's head to the branch's, and drop branches and tags, all in one commit.

        This is the only commit that makes rows visible. With `alone`, it is refused if there is a branch or tag that
        the view does not show, or one that was moved. `statistics` become those of the branch's snapshot.
        """
        ...

    def drop_branches(self, view: TableView, branches: Sequence[str]) -> None: ...

    def move_tags(self, view: TableView, *, put: Mapping[str, int], drop: Sequence[str] = ()) -> None:
        """Point tags to snapshots and drop others, if all of them are still where the view shows them."""
        ...

    def expire(self, view: TableView, expiry: Expiry) -> None:
        """Remove snapshots and move tags in one commit, if every branch and tag is still where the view shows it."""
        ...

    def delete_unreachable(
        self, before: TableView, expired: Sequence[int], *, named_elsewhere: Paths, left_elsewhere: Paths = frozenset
    ) -> Cleaned:
        """Delete the files that only `expired` snapshots of the view `before` referenced, after their commit.

        `named_elsewhere` gives paths that must stay; called only where data files would go. Files of `left_elsewhere`
        go as well, if they are in the table's data folder and no snapshot has them.
        """
        ...

    def set_property_at(self, view: TableView, name: str, value: str) -> None:
        """Set a property if `main` is still at the view's head."""
        ...

    def set_properties(self, identifier: str, *, put: Mapping[str, str], remove: Sequence[str] = ()) -> None: ...

    def change_schema(
        self,
        view: TableView,
        changes: Sequence[Change],
        properties: Mapping[str, str],
        *,
        partition_by: Sequence[str] | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> TableView:
        """Apply changes to the schema that the view shows, and set the partitioning and the sort order.

        Both are written as in a spec; files that are there keep theirs. Refused where one of the three has changed.
        """
        ...


class RebuildLake(Lake, Protocol):
    """The lake as the rebuild of a table sees it: the table, and that of its dead letters, as the rebuild makes them.

    To the steps of a batch they look like new tables with a `main` of their own. No reader sees anything of them, nor
    does a driver of the table. `create` begins such a table, beside the present rows of the one that exists.
    """

    def replace(
        self,
        view: TableView,
        built: TableView,
        *,
        tags: Sequence[str],
        summary: Mapping[str, str],
        document: bytes,
        put: Mapping[str, str],
        remove: Collection[str],
        statistics: PuffinFile | None = None,
    ) -> None:
        """Make what was built the table that readers see, if `main` is still at the view's head: all in one commit.

        Its columns, layout and properties become the table's, with an empty, tagged snapshot that carries the summary
        and the document. `put` are properties beside those of the rebuild, and those to `remove` go. `statistics` are
        the snapshot's.
        """
        ...

    def make_ready(
        self,
        view: TableView,
        built: TableView,
        *,
        summary: Mapping[str, str],
        document: bytes,
        put: Mapping[str, str],
        remove: Collection[str],
    ) -> None:
        """Leave what `replace` would make the table beside it, for `take_rebuilt`; no reader sees that."""
        ...

    def begin_at(self, view: TableView, snapshot_id: int, *, tag: str, properties: Mapping[str, str]) -> None:
        """Begin the rebuild of a table at one of its snapshots, with the view's columns and layout."""
        ...

    def discard(self, identifier: str, *, seen: TableView | None = None) -> bool:
        """Drop what a rebuild has made of a table, unless it has gone on since `seen`. Return whether there was any."""
        ...


class DeltaLogs(Protocol):
    """Delta logs beside Iceberg tables, by the tables' locations. A write is a single attempt, on a version not there.

    Raises CatalogError if the storage does not answer.
    """

    def files(self, view: TableView) -> TableFiles:
        """Return the files of the view's head."""
        ...

    def shapes(self, view: TableView, files: Sequence[TableFile]) -> Iterable[FileShape]:
        """Return the columns of each file."""
        ...

    def read(self, location: str) -> DeltaLog | None:
        """Return the newest version, or None if the table has no log."""
        ...

    def removals(self, location: str, *, newest: int) -> Iterator[Removals]:
        """Yield what each version removed, from the version `newest` back to the oldest that is still there."""
        ...

    def removed(self, location: str) -> frozenset[str]:
        """Return the paths of all files that any version removed and the newest does not have."""
        ...

    def write(self, location: str, write: LogWrite) -> None:
        """Write a version. Raises CommitRejectedError if another writer committed that version first."""
        ...


class SecretHistories(Protocol):
    """Describes secrets without reading their values."""

    def history(self, name: str) -> SecretHistory | None:
        """Return the history, or None if no such secret exists. Raises ServiceError if it cannot be described."""
        ...


class Snowflake(Protocol):
    """An account that reads the tables, as one of its users. Each method raises SnowflakeError if a statement fails."""

    def refresh(self, table: str) -> None:
        """Refresh an external table from its folder. Idempotent."""
        ...

    def refreshed_at(self, table: str) -> datetime | None:
        """Return when an external table was last refreshed, or None if never."""
        ...

    def served(self, table: str) -> Served:
        """Return the snapshot that queries of an Iceberg table read, and how it is refreshed."""
        ...


class RecordReader(Protocol):
    """Reads ranges of partitions, committed records only."""

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        """Yield, for each range in order, its chunks in order, up to its end. While one is read, others are fetched.

        To ask for the next range ends the one before, read to its end or not. Chunks raise BrokerError if the broker
        does not answer, and RecordsLostError if records of the range were deleted.
        """
        ...
