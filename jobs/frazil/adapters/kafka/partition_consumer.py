"""A Kafka client that fetches several partitions and returns the records of one at a time, as the reader uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaError

from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields, Records

POLL_SECONDS = 0.2
"""How long a poll waits for records."""

FIRST_STEP = 16
"""How many records a poll takes first, since their size is not known."""

NO_RECORDS = Records.of([], [], [], [], [], next_offset=-1)


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll returned. `partition_end` is the partition's end, if the broker reported it.

    An `error` came after the records, or concerns no partition.
    """

    records: Records
    partition_end: int | None = None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class PollLimits:
    """A poll returns at most `records`, or about `byte_limit` bytes, and need not pass the offset `end`.

    If `exact`, the poll ends with the record that reaches `byte_limit`.
    """

    records: int
    byte_limit: int
    exact: bool
    end: int

    def step(self, taken: int, taken_bytes: int) -> int:
        """Return how many records to take next: as many as fit, if they are as large as those that were taken.

        `native/src/fetch.rs` has the same rule.
        """
        left = self.records - taken
        if self.exact or not taken:
            return min(left, 1 if self.exact else FIRST_STEP)
        mean = max(taken_bytes // taken, 1)
        return min(left, (self.byte_limit - taken_bytes) // mean + 1, 4 * taken)

    def reached(self, taken: int, taken_bytes: int) -> bool:
        return taken >= self.records or taken_bytes >= self.byte_limit


class PartitionConsumer(Protocol):
    """Fetches partitions, each from its range's start on. Ranges that are fetched together differ in their partitions.

    Methods raise KafkaException for what the client refuses. Errors that are not an answer to a poll are appended to
    the buffer that the consumer was made with.
    """

    def forget_errors(self) -> None:
        """Empty the buffer of errors, also of those that the client has not reported yet."""
        ...

    def assign(self, ranges: Sequence[OffsetRange]) -> None:
        """Fetch these partitions, and no others."""
        ...

    def add(self, ranges: Sequence[OffsetRange]) -> None:
        """Fetch these partitions as well."""
        ...

    def remove(self, ranges: Sequence[OffsetRange]) -> None:
        """Fetch these partitions no longer, and discard what was fetched of them."""
        ...

    def unassign(self) -> None:
        """Fetch no partition."""
        ...

    def poll(self, wanted: OffsetRange, limits: PollLimits, optional: OptionalFields) -> Polled:
        """Return records of the range's partition; wait for them for up to POLL_SECONDS."""
        ...

    def position(self, wanted: OffsetRange) -> int:
        """Return the offset after the last record or control record that was passed; negative before the first.

        Only valid directly after a poll without records.
        """
        ...

    def close(self) -> None:
        """Leave the cluster in order: a client that is only forgotten may take the process with it."""
        ...
