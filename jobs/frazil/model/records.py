"""Kafka records, column by column, as a reader hands them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class UnreadableHeaders:
    """In place of headers that the Kafka client cannot decode."""

    problem: str


@dataclass(frozen=True, slots=True)
class Records:
    """Some consecutive records of one partition. `next_offset` is where reading goes on: all before it is read.

    `timestamps_ms` are milliseconds since the epoch, None where the record has none. `last_leader_epoch`
    is the last record's (KIP-320). `timestamp_types` and `leader_epochs` are empty unless asked for.
    """

    offsets: Sequence[int]
    timestamps_ms: Sequence[int | None]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | UnreadableHeaders | None]
    next_offset: int
    last_leader_epoch: int | None = None
    timestamp_types: Sequence[str | None] = ()
    leader_epochs: Sequence[int | None] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys, values and headers. Headers that are not decoded until they are asked for, are."""
        plain = sum(len(each) for part in (self.keys, self.values) for each in part if each is not None)
        return plain + sum(_header_bytes(each) for each in self.headers)

    def first(self, count: int) -> Records:
        """The first records only; reading would go on at the first one left out."""
        if count >= len(self):
            return self
        return Records(
            offsets=self.offsets[:count],
            timestamps_ms=self.timestamps_ms[:count],
            keys=self.keys[:count],
            values=self.values[:count],
            next_offset=self.offsets[count],
            last_leader_epoch=self.last_leader_epoch,
            headers=self.headers[:count],
            timestamp_types=self.timestamp_types[:count],
            leader_epochs=self.leader_epochs[:count],
        )

    def after(self, count: int) -> Records:
        """The records without the first ones."""
        return replace(
            self,
            offsets=self.offsets[count:],
            timestamps_ms=self.timestamps_ms[count:],
            keys=self.keys[count:],
            values=self.values[count:],
            headers=self.headers[count:],
            timestamp_types=self.timestamp_types[count:],
            leader_epochs=self.leader_epochs[count:],
        )


def _header_bytes(headers: Headers | UnreadableHeaders | None) -> int:
    if headers is None or isinstance(headers, UnreadableHeaders):
        return 0
    return sum(len(key) + len(value or b"") for key, value in headers)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the costlier parts of a record a table needs."""

    timestamp_type: bool
    leader_epoch: bool
