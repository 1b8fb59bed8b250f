"""What the steps need from external systems, as Protocols; `adapters/` implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.delta import DeltaLog, FileShape, LogWrite, TableFile, TableFiles
from frazil.model.expiry import Cleaned, Expiry
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.plan import OffsetRange, TopicFacts
from frazil.model.schemas import RegisteredSchema
from frazil.model.secret_history import SecretHistory
from frazil.model.snapshot import TableView
from frazil.model.snowflake import Served
from frazil.model.spec import SettingValue, Start
from frazil.records import OptionalFields, Records


class SchemaRegistry(Protocol):
    """A Confluent-compatible schema registry. Ids are resolved once a process."""

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema, or None where the registry answers that there is none (remembered for a minute).

        Raises RegistryError where it does not answer: never to be taken for None.
        """
        ...

    def remembers_missing(self, schema_id: int) -> bool:
        """Whether `by_id` answers None without asking the registry again."""
        ...

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject, or None where the registry answers that there is no such subject."""
        ...

    def subjects_under(self, prefix: str) -> Collection[str]:
        """The names of all subjects that begin so."""
        ...


class Topics(Protocol):
    """The broker's view of topics. Raises BrokerError where it does not answer."""

    def describe(self, topic: str) -> TopicFacts | None:
        """Where the topic stands now, or None where the broker has no such topic."""
        ...

    def names(self) -> Collection[str]:
        """The topics of the cluster that this user may see, internal ones included."""
        ...

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        """Where each partition begins for a table that starts as its spec says."""
        ...


class TaskRunner(Protocol):
    """Runs ingest tasks, each to success or not at all, and returns what the successful attempt of each returned."""

    @property
    def parallelism(self) -> int:
        """How many tasks the cluster runs at the same time; 1 before `start`."""
        ...

    def start(self) -> object:
        """Start what runs the tasks, if it is not running."""
        ...

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]: ...

    def stop(self) -> None: ...


class Lake(Protocol):
    """Iceberg tables in one catalog. Every commit is a single attempt: deciding what to do next is the caller's."""

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
    ) -> TableView:
        """Make a table with one empty snapshot that carries `summary` and `document`, and tag it, in one commit."""
        ...

    def begin(self, view: TableView, summary: Mapping[str, str], *, document: bytes, tag: str) -> None:
        """Put an empty, tagged snapshot that carries both on `main`, if its head is still the view's."""
        ...

    def stage(
        self,
        view: TableView,
        *,
        base: int,
        branch: str,
        files: Sequence[WrittenFile],
        summary: Mapping[str, str],
        document: bytes = b"",
        without: str | None = None,
    ) -> int:
        """Append files on a new branch that begins at the snapshot `base`; the new snapshot's id.

        The snapshot keeps `summary` in the table's metadata, and `document` in the header of its manifest list.
        `without` is a condition in Iceberg's filter language: rows that meet it are taken out first.
        """
        ...

    def added_files(self, view: TableView, snapshot_id: int) -> Sequence[WrittenFile]:
        """The data files that a snapshot added."""
        ...

    def publish(self, view: TableView, *, branch: str, tag: str, drop: Sequence[str]) -> None:
        """Move `main` and the tag from the view's head to the branch's, and drop branches, all in one commit."""
        ...

    def drop_branches(self, view: TableView, branches: Sequence[str]) -> None: ...

    def move_tags(self, view: TableView, *, put: Mapping[str, int], drop: Sequence[str] = ()) -> None:
        """Point tags to snapshots and drop others, if all of them are still where the view shows them."""
        ...

    def expire(self, view: TableView, expiry: Expiry) -> None:
        """Remove snapshots and move tags in one commit, if every branch and tag is still where the view shows it."""
        ...

    def delete_unreachable(
        self, before: TableView, expired: Sequence[int], *, named_elsewhere: Callable[[], Collection[str]]
    ) -> Cleaned:
        """Delete the files that only `expired` snapshots of the view `before` referenced, after their commit.

        `named_elsewhere` gives paths below the table's folder that must stay; it is called only where data files
        would go. Raises CatalogError where the table cannot be read.
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
    ) -> TableView:
        """Apply changes to the schema that the view shows, and set the partitioning; refused where either has changed.

        `partition_by` is written as in a spec. Files that are in the table keep the partitioning they have.
        """
        ...


class DeltaLogs(Protocol):
    """Delta logs beside Iceberg tables, by the tables' locations. A write is a single attempt, on a version not there.

    Raises CatalogError where the storage does not answer.
    """

    def files(self, view: TableView) -> TableFiles:
        """What the view's head consists of."""
        ...

    def shapes(self, view: TableView, files: Sequence[TableFile]) -> Iterable[FileShape]:
        """What columns each of the files has."""
        ...

    def read(self, location: str) -> DeltaLog | None:
        """The newest version, or None where there is no log yet."""
        ...

    def named_since(self, location: str, moment: datetime) -> Collection[str]:
        """Paths below the location that the newest version names, or the one that readers saw at the moment."""
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
    """An account that reads the tables, as one of its users. Raises SnowflakeError where it does not do as asked."""

    def refresh(self, table: str) -> None:
        """Refresh an external table from its folder. Idempotent."""
        ...

    def refreshed_at(self, table: str) -> datetime | None:
        """Return when an external table was last refreshed, or None if never."""
        ...

    def served(self, table: str) -> Served:
        """What queries of an Iceberg table see."""
        ...


class RecordReader(Protocol):
    """Reads ranges of partitions, committed records only."""

    def read(self, wanted_range: OffsetRange, optional: OptionalFields) -> Iterator[Records]:
        """Chunks of the range in order, up to its end.

        Raises BrokerError where the broker does not answer and RecordsLostError where offsets have gone.
        """
        ...
