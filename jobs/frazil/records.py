"""Kafka records, column by column, as a reader hands them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BINARY_HEADER = pa.struct([pa.field("key", pa.large_binary(), nullable=False), pa.field("value", pa.large_binary())])
BINARY_HEADERS = pa.large_list(pa.field("item", BINARY_HEADER, nullable=False))
"""The headers of one record as Kafka has them: their keys need not be UTF-8."""

HEADER_MEMORY = 64
"""The memory of a header without its key and value, about. `native/src/batch.rs` has the same constant."""

SHOWN_BYTES = 40
"""The maximum length of a header key in a message."""


@dataclass(frozen=True, slots=True)
class UnreadableHeaders:
    """In place of headers that the Kafka client cannot decode."""

    problem: str


HeaderList = Sequence[tuple[str, bytes | None]] | UnreadableHeaders | None
"""The headers of one record as Python has them; None if it has no headers."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers of records, of the type `BINARY_HEADERS`: null where a record has none, or where they cannot be read.

    `problems` says for each record why its headers cannot be read, and is null if they can.
    """

    lists: pa.LargeListArray
    problems: pa.StringArray

    @classmethod
    def of(cls, found: Sequence[HeaderList]) -> Headers:
        builder = HeadersBuilder()
        for each in found:
            builder.add(each)
        return builder.finish()

    def __len__(self) -> int:
        return len(self.lists)

    @property
    def memory(self) -> int:
        each = self.lists.flatten()
        return sum(_total_length(each.field(n)) for n in range(2)) + len(each) * HEADER_MEMORY

    def has_problems(self) -> bool:
        """Return whether the headers of any record cannot be read."""
        return bool(self.problems.null_count < len(self.problems))

    def take(self, indexes: pa.Int64Array) -> Headers:
        """Return the headers of these records; a null index has none."""
        return Headers(_taken(self.lists, indexes), _taken(self.problems, indexes))

    @classmethod
    def joined(cls, parts: Sequence[Headers]) -> Headers:
        """Return the headers of all parts, at least one."""
        lists, problems = ([getattr(each, name) for each in parts] for name in ("lists", "problems"))
        return cls(pa.concat_arrays(lists), pa.concat_arrays(problems))

    def slice(self, start: int, length: int | None = None) -> Headers:
        return Headers(self.lists.slice(start, length), self.problems.slice(start, length))

    def filter(self, kept: pa.BooleanArray) -> Headers:
        return Headers(self.lists.filter(kept), self.problems.filter(kept))

    def last(self, key: bytes) -> pa.LargeBinaryArray:
        """Return the value of each record's last header with this key; null where it has none."""
        each = self.lists.flatten()
        there = pc.indices_nonzero(pc.equal(each.field("key"), pa.scalar(key, pa.large_binary()))).to_numpy()
        places = np.full(len(self), -1)
        places[np.repeat(np.arange(len(self)), self._counts())[there]] = there
        return each.field("value").take(pa.array(places, mask=places < 0))

    def checked(self) -> Headers:
        """Return the headers with a problem in place of those with a key that is not UTF-8.

        Their keys can be cast to text: what was sliced off is gone too, since a cast of a list reads all its items.
        """
        if self.lists.null_count == len(self):
            return Headers(pa.nulls(len(self), BINARY_HEADERS), self.problems)
        keys = self.lists.flatten().field("key")
        try:
            keys.cast(pa.large_string())
        except pa.ArrowInvalid:
            return self._without_bad_keys(keys)
        return self._alone()

    def _alone(self) -> Headers:
        """Return the same headers in arrays that hold nothing else."""
        each = self.lists.flatten()
        if len(each) == len(self.lists.values):
            return self
        ends = np.concatenate([[0], self._counts().cumsum()])
        lists = pa.LargeListArray.from_arrays(pa.array(ends), each, type=BINARY_HEADERS, mask=self.lists.is_null())
        return Headers(lists, self.problems)

    def _counts(self) -> npt.NDArray[np.int64]:
        """Return the number of headers of each record."""
        return np.asarray(pc.fill_null(pc.list_value_length(self.lists), 0).to_numpy(), np.int64)

    def _without_bad_keys(self, keys: pa.LargeBinaryArray) -> Headers:
        problems: dict[int, str] = {}
        indexes = np.repeat(np.arange(len(self)), self._counts()).tolist()
        for index, key in zip(indexes, keys.to_pylist(), strict=True):
            if index not in problems and not _is_text(key):
                problems[index] = unreadable_key(key)
        bad = np.isin(np.arange(len(self)), list(problems))
        lists = self.lists.take(pa.array(np.arange(len(self)), mask=bad))
        texts = [problems.get(index, problem) for index, problem in enumerate(self.problems.to_pylist())]
        return Headers(lists, pa.array(texts, pa.string()))


class HeadersBuilder:
    """Takes the headers of one record after the other apart, so that Python need not keep a list for each."""

    def __init__(self) -> None:
        self.memory = 0
        self._keys: list[str] = []
        self._values: list[bytes | None] = []
        self._counts: list[int] = []
        self._problems: dict[int, str] = {}

    def add(self, found: HeaderList) -> None:
        if found is None or isinstance(found, UnreadableHeaders):
            if found is not None:
                self._problems[len(self._counts)] = found.problem
            self._counts.append(_NO_HEADERS)
            return
        for key, value in found:
            self._keys.append(key)
            self._values.append(value)
            self.memory += len(key) + len(value or b"") + HEADER_MEMORY
        self._counts.append(len(found))

    def finish(self) -> Headers:
        """Return the headers of all records that were added."""
        counts = np.asarray(self._counts, np.int64)
        keys = pa.array(self._keys, pa.large_string()).cast(pa.large_binary())
        each = pa.StructArray.from_arrays([keys, binary(self._values)], fields=[*BINARY_HEADER])
        ends = np.concatenate([[0], np.maximum(counts, 0).cumsum()])
        lists = pa.LargeListArray.from_arrays(
            pa.array(ends), each, type=BINARY_HEADERS, mask=pa.array(counts == _NO_HEADERS)
        )
        problems = [self._problems.get(index) for index in range(len(counts))]
        return Headers(lists, pa.array(problems, pa.string()))


_NO_HEADERS = -1


def _taken(column: pa.Array, indexes: pa.Int64Array) -> pa.Array:
    """Return the values at these indexes, without looking at them where all are null, as headers mostly are."""
    all_are_null = column.null_count == len(column)
    return pa.nulls(len(indexes), column.type) if all_are_null else column.take(indexes)


def unreadable_key(key: bytes) -> str:
    """Return the problem of headers with a key that is not UTF-8."""
    shown = f"0x{key[:SHOWN_BYTES].hex()}{'…' if len(key) > SHOWN_BYTES else ''}"
    return f"a header key is not UTF-8: {shown}"


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Records:
    """Some consecutive records of one partition, in Arrow.

    `next_offset` is where reading continues: all before it is read. `keys` and `values` have 64-bit offsets, so that
    no chunk is too large for them. `timestamps_ms` are milliseconds since the epoch, null where the record has none.
    `last_leader_epoch` is the last record's (KIP-320). `timestamp_types` and `leader_epochs` are None unless asked for.
    """

    offsets: pa.Int64Array
    timestamps_ms: pa.Int64Array
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    headers: Headers
    next_offset: int
    last_leader_epoch: int | None = None
    timestamp_types: pa.Array | None = None
    leader_epochs: pa.Int32Array | None = None

    @classmethod
    def of(
        cls,
        offsets: Sequence[int],
        timestamps_ms: Sequence[int | None],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[HeaderList],
        next_offset: int,
        last_leader_epoch: int | None = None,
    ) -> Records:
        """Return the records of columns that Python has."""
        return cls(
            offsets=pa.array(offsets, pa.int64()),
            timestamps_ms=pa.array(timestamps_ms, pa.int64()),
            keys=binary(keys),
            values=binary(values),
            headers=Headers.of(headers),
            next_offset=next_offset,
            last_leader_epoch=last_leader_epoch,
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first_offset(self) -> int:
        """The first record's offset. Raises IndexError if there is none."""
        return int(self.offsets[0].as_py())

    @property
    def last_offset(self) -> int:
        """The last record's offset. Raises IndexError if there is none."""
        return int(self.offsets[-1].as_py())

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each record's key and value."""
        return _lengths(self.keys) + _lengths(self.values)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all keys and values: the sum of `sizes`."""
        return _total_length(self.keys) + _total_length(self.values)

    @property
    def memory(self) -> int:
        """The memory of keys, values and headers, about."""
        return self.payload_bytes + self.headers.memory

    def first(self, count: int) -> Records:
        """Return the first records only; `next_offset` is then the first record left out."""
        if count >= len(self):
            return self
        return self._each(lambda column: column.slice(0, count), next_offset=self.offsets[count].as_py())

    def after(self, count: int) -> Records:
        """The records without the first ones."""
        return self._each(lambda column: column.slice(count), next_offset=self.next_offset)

    def filter(self, kept: pa.BooleanArray) -> Records:
        """The records where the mask is true; `next_offset` stays."""
        if kept.true_count == len(kept):
            return self
        return self._each(lambda column: column.filter(kept), next_offset=self.next_offset)

    def take(self, indexes: pa.Int64Array) -> Records:
        """The records at these indexes; `next_offset` stays."""
        return self._each(lambda column: column.take(indexes), next_offset=self.next_offset)

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Return the records of all parts, at least one, which have the same optional fields."""
        first, last = parts[0], parts[-1]
        columns = {
            name: [getattr(each, name) for each in parts] for name in _COLUMNS if getattr(first, name) is not None
        }
        headers = Headers.joined(columns.pop("headers"))
        return replace(last, headers=headers, **{name: pa.concat_arrays(each) for name, each in columns.items()})

    def _each(self, change: Callable[[Any], Any], *, next_offset: int) -> Records:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        changed = {name: change(column) for name, column in columns.items() if column is not None}
        return replace(self, **changed, next_offset=next_offset)


_COLUMNS = ("offsets", "timestamps_ms", "keys", "values", "headers", "timestamp_types", "leader_epochs")


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


@dataclass(frozen=True, slots=True)
class OptionalFields:
    """The fields of a record that only some tables need, and that take time to read."""

    timestamp_type: bool
    leader_epoch: bool
