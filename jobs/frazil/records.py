"""Kafka records, column by column, as a reader hands them on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast, overload

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


SHOWN_BYTES = 40
"""The maximum length of a header key in a message."""


def unreadable_key(key: bytes) -> UnreadableHeaders:
    shown = f"0x{key[:SHOWN_BYTES].hex()}{'…' if len(key) > SHOWN_BYTES else ''}"
    return UnreadableHeaders(f"a header key is not UTF-8: {shown}")


Item_co = TypeVar("Item_co", covariant=True)


class ColumnView(Sequence[Item_co], Generic[Item_co]):
    """An Arrow array as a sequence of Python values. numpy and pyarrow take the array itself, without a copy."""

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> ColumnView[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | ColumnView[Item_co]:
        if isinstance(index, slice):
            return ColumnView(self.array[index])
        return cast("Item_co", self.array[int(index)].as_py())

    def __iter__(self) -> Iterator[Item_co]:
        return iter(self.array.to_pylist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        del copy
        return np.asarray(self.array.to_numpy(zero_copy_only=False), dtype)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002 - pyarrow's name
        return self.array if type is None else self.array.cast(type)


class HeaderColumn(Sequence[Headers | UnreadableHeaders | None]):
    """Headers in an Arrow array of lists of keys and values, read when they are asked for: most tables never do."""

    __slots__ = ("array", "problems")

    def __init__(self, array: pa.LargeListArray, problems: pa.StringArray) -> None:
        """`problems` says for each record why its headers cannot be read, and is null if they can."""
        self.array = array
        self.problems = problems

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> Headers | UnreadableHeaders | None: ...
    @overload
    def __getitem__(self, index: slice) -> HeaderColumn: ...
    def __getitem__(self, index: int | slice) -> Headers | UnreadableHeaders | HeaderColumn | None:
        if isinstance(index, slice):
            return HeaderColumn(self.array[index], self.problems[index])
        return _headers(self.array[int(index)].as_py(), self.problems[int(index)].as_py())

    def __iter__(self) -> Iterator[Headers | UnreadableHeaders | None]:
        return map(_headers, self.array.to_pylist(), self.problems.to_pylist())

    @property
    def memory(self) -> int:
        """The memory that all of them take when they are read."""
        each = self.array.flatten()
        held = sum(_total_length(each.field(n)) for n in range(2))
        return held + len(each) * HEADER_OBJECTS


def _headers(found: list[dict[str, bytes | None]] | None, problem: str | None) -> Headers | UnreadableHeaders | None:
    if problem is not None:
        return UnreadableHeaders(problem)
    if found is None:
        return None
    headers: list[tuple[str, bytes | None]] = []
    for each in found:
        key = each["key"] or b""
        try:
            headers.append((key.decode(), each["value"]))
        except UnicodeDecodeError:
            return unreadable_key(key)
    return headers


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
    def total_size(self) -> int:
        """The sum of `sizes`."""
        return _total_length(self.keys) + _total_length(self.values)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values, and the memory that headers take, which are decoded if they are not yet."""
        return self.total_size + headers_memory(self.headers)

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


def value_ends(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return where the first value begins in the array's data, and where each value ends."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]


def _lengths(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return the bytes of each value, 0 for null."""
    if values.null_count:  # a null may have bytes
        return np.asarray(pc.fill_null(pc.binary_length(values), 0).to_numpy(), np.int64)
    return np.diff(value_ends(values))


def _total_length(values: pa.LargeBinaryArray) -> int:
    if values.null_count:
        return int(_lengths(values).sum())
    ends = value_ends(values)
    return int(ends[-1] - ends[0])


def headers_memory(headers: Sequence[Headers | UnreadableHeaders | None]) -> int:
    """Return the bytes of memory that headers take, which are decoded if they are not yet."""
    return headers.memory if isinstance(headers, HeaderColumn) else sum(map(_header_bytes, headers))


def _header_bytes(headers: Headers | UnreadableHeaders | None) -> int:
    if headers is None or isinstance(headers, UnreadableHeaders):
        return 0
    return sum(len(key) + len(value or b"") + HEADER_OBJECTS for key, value in headers)


@dataclass(frozen=True, slots=True)
class OptionalFields:
    """The fields of a record that only some tables need, and that take time to read."""

    timestamp_type: bool
    leader_epoch: bool
