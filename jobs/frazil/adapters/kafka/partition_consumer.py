"""A Kafka client that reads one partition at a time, as the reader uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaError

from frazil.records import OptionalFields, Records, binary

POLL_SECONDS = 0.2
"""How long a poll waits for records."""

NO_RECORDS = Records((), (), binary([]), binary([]), (), next_offset=-1)


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll returned. `partition_end` is the partition's end, if the broker reported it.

    With an `error`, the records do not count.
    """

    records: Records
    partition_end: int | None = None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class PollLimits:
    """A poll returns at most `records`, or up to the record that reaches `byte_limit`, and need not pass `end`."""

    records: int
    byte_limit: int | None
    end: int


class PartitionConsumer(Protocol):
    """Methods raise KafkaException for what the client refuses.

    Errors that are not an answer to a poll are appended to the buffer that the consumer was made with.
    """

    def assign(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from an offset on, and no other."""
        ...

    def unassign(self) -> None: ...

    def poll(self, limits: PollLimits, optional: OptionalFields) -> Polled:
        """Wait up to POLL_SECONDS for records of the partition."""
        ...

    def position(self) -> int:
        """Return the offset after the last record or control record that was passed; negative before the first."""
        ...

    def close(self) -> None:
        """Leave the cluster in order: a client that is only forgotten may take the process with it."""
        ...
