"""What an output topic needs from external systems, as Protocols; `adapters/` implements them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from frazil.model.outputs import Marker, OutputSpec, ShardPlace
from frazil.model.snapshot import TableView


@dataclass(frozen=True, slots=True)
class Encoded:
    """Records to send, as arrays of one length: the bytes of keys and values, and the partitions.

    A null value is a tombstone; `keys` is None for no keys.
    """

    keys: pa.Array | None
    values: pa.Array
    partitions: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    def after(self, count: int) -> Encoded:
        """Return the records after the first `count`."""
        if not count:
            return self
        keys = None if self.keys is None else self.keys.slice(count)
        return Encoded(keys, self.values.slice(count), self.partitions.slice(count))


class ShardProducer(Protocol):
    """Sends the records of one shard in transactions, as the only process that does.

    After an error, it cannot be used again. Each method raises FencedError if another process has taken the shard over
    since, TransactionTimedOutError if the cluster aborted the transaction because of its age, and BrokerError if it
    does not answer, or refuses.
    """

    def marker(self) -> Marker | None:
        """Return the marker that was committed last; None if there is none."""
        ...

    def begin(self) -> None:
        """Begin a transaction, which the cluster knows of from its first record or marker on."""
        ...

    def add(self, records: Encoded) -> None:
        """Send records in the transaction."""
        ...

    def commit(self, marker: Marker) -> None:
        """Add the marker to the transaction, and commit it."""
        ...

    def abort(self) -> None:
        """Abort the transaction if one is open. Raises nothing: an error led here, which says more."""
        ...

    def close(self) -> None: ...


class OutputTopics(Protocol):
    """The Kafka cluster of the output topics. Methods raise BrokerError if it does not answer, or refuses."""

    def partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises TopicMissingError if the cluster has no such topic."""
        ...

    def check_permissions(self, output: OutputSpec) -> None:
        """Raise BrokerError if the cluster says that a permission is missing. It does not say all that are."""
        ...

    def markers(self, places: Sequence[ShardPlace]) -> list[Marker | None] | None:
        """Return the committed marker of each shard of one output, without fencing a process.

        None if a transaction with a marker is open: `open` ends it, and tells what its shard has sent.
        """
        ...

    def open(self, place: ShardPlace) -> ShardProducer:
        """Take a shard over: fence the process that had it, and end the transaction that it left open."""
        ...


class OutputSchemas(Protocol):
    """The registry of the schemas of output topics."""

    def register(self, subject: str, schema: str) -> int:
        """Return the id of an Avro schema, and register it if the subject lacks it.

        Raises OutputSchemaError if the subject's compatibility forbids it, and RegistryError for other failures.
        """
        ...

    def check(self, subject: str, schema: str) -> None:
        """Raise what `register` would raise, but for missing permission. Nothing is registered."""
        ...


class OutputRows(Protocol):
    """The rows of single snapshots."""

    def added(self, view: TableView, snapshot_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files that a snapshot added, with the columns as the view has them.

        The order is the same each time. Raises CatalogError if the files cannot be read.
        """
        ...

    def removed(self, view: TableView, snapshot_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of its parent that a snapshot took out, likewise. The view must have the parent."""
        ...


@dataclass(frozen=True, slots=True)
class OutputClients:
    topics: OutputTopics
    schemas: OutputSchemas
    rows: OutputRows
