"""Kafka records, column by column, as a reader hands them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Headers = Sequence[tuple[str, bytes | None]]

HEADER_OBJECTS = 100
"""The bytes of Python overhead for the tuple, the text and the bytes object of a header."""


@dataclass(frozen=True, slots=True)
class UnreadableHeaders:
    """In place of headers that the Kafka client cannot decode."""

    problem: str


@dataclass(frozen=True, slots=True)
class Records:
    """Some consecutive records of one partition. `next_offset` is where reading continues: all before it is read.

    `keys` and `values` have 64-bit offsets, so that no chunk is too large for them. `timestamps_ms` are milliseconds
    since the epoch, None where the record has none. `last_leader_epoch` is the last record's (KIP-320).
    `timestamp_types` and `leader_epochs` are empty unless asked for.
    """

    offsets: Sequence[int]
    timestamps_ms: Sequence[int | None]
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    headers: Sequence[Headers | UnreadableHeaders | None]
    next_offset: int
    last_leader_epoch: int | None = None
    timestamp_types: Sequence[str | None] = ()
    leader_epochs: Sequence[int | None] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each record's key and value."""
        return _lengths(self.keys) + _lengths(self.values)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values, and the memory that headers take, which are decoded if they are not yet."""
        return int(self.sizes.sum()) + sum(_header_bytes(each) for each in self.headers)

    def first(self, count: int) -> Records:
        """Return the first records only; `next_offset` is then the first record left out."""
        return self if count >= len(self) else self._cut(slice(count), next_offset=self.offsets[count])

    def after(self, count: int) -> Records:
        """The records without the first ones."""
        return self._cut(slice(count, None), next_offset=self.next_offset)

    def _cut(self, part: slice, *, next_offset: int) -> Records:
        return replace(
            self,
            offsets=self.offsets[part],
            timestamps_ms=self.timestamps_ms[part],
            keys=self.keys[part],
            values=self.values[part],
            headers=self.headers[part],
            timestamp_types=self.timestamp_types[part],
            leader_epochs=self.leader_epochs[part],
            next_offset=next_offset,
        )


def binary(values: Sequence[bytes | None]) -> pa.LargeBinaryArray:
    """Keys or values as `Records` and decoders take them."""
    return pa.array(values, pa.large_binary())


def _lengths(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    lengths: Any = pc.fill_null(pc.binary_length(values), 0)
    return np.asarray(lengths.to_numpy(), np.int64)


def _header_bytes(headers: Headers | UnreadableHeaders | None) -> int:
    if headers is None or isinstance(headers, UnreadableHeaders):
        return 0
    return sum(len(key) + len(value or b"") + HEADER_OBJECTS for key, value in headers)


@dataclass(frozen=True, slots=True)
class OptionalFields:
    """The fields of a record that only some tables need, and that take time to read."""

    timestamp_type: bool
    leader_epoch: bool
