"""How much of a partition the proof against Kafka holds at a time, and stamps that Python has no words for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message
from pyroaring import BitMap64

from frazil.adapters.kafka.message_consumer import MessageConsumer, Stash
from frazil.adapters.kafka.partition_consumer import PollLimits
from frazil.dead_letters import NO_MARKS, _letters
from frazil.records import HEADER_MEMORY, OptionalFields, Records, binary
from frazil.verify.against_kafka import CHUNK_BYTES, WINDOW_BYTES, WINDOW_OFFSETS, _Comparing
from frazil.verify.letter_comparison import LetterComparison
from frazil.verify.letters import LETTER
from frazil.verify.quoting import Quoting
from frazil.verify.row_comparison import RowComparison, Side, SometimesKept
from frazil.verify.window import (
    SIDE_BYTES,
    PartitionComparison,
    _side,
    only_in_kafka,
)
from tests.fakes.reader_in_memory import ReaderInMemory

NONE = OptionalFields(timestamp_type=False, leader_epoch=False)


def records(first: int, count: int, size: int) -> Records:
    offsets = range(first, first + count)
    only = Records.of(offsets, [0] * count, [None] * count, [None] * count, [None] * count, first + count)
    return replace(only, values=zeros(count, size))


@cache
def zeros(count: int, size: int) -> pa.LargeBinaryArray:
    return binary([bytes(size)] * count)


@cache
def nulls(count: int) -> pa.LargeBinaryArray:
    return binary([None] * count)


def reader_of(size: int, count: int) -> ReaderInMemory:
    """A partition of records that have a value of `size` bytes; chunks have 50, or about 64 MB."""
    chunk = min(50, (64 << 20) // max(size, 1))
    return ReaderInMemory([(None, bytes(size))] * count, chunk, headers=dict.fromkeys(range(count)))


@dataclass
class Windows:
    """In place of a comparison: the bounds and bytes of each window."""

    row_schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    seen: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def tables(self) -> list[Any]:
        return [SimpleNamespace(as_rows=SimpleNamespace(optional_fields=NONE, row_schema=self.row_schema))]

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None:
        self.seen.append((start, end, sum(chunk.memory for chunk in chunks)))


@pytest.mark.parametrize(("size", "count"), [(10_000, 20_000), (0, 450_000), (20 << 20, 60)])
def test_a_window_is_bounded_by_bytes_and_by_offsets(size: int, count: int) -> None:
    windows = Windows()
    kafka = SimpleNamespace(reader=reader_of(size, count))
    comparing = _Comparing(*cast("tuple[Any, Any, Any, Any, Any]", (None, None, None, kafka, None)))

    reached = list(comparing._windows(cast(Any, windows), ("orders", 0), 0, count))

    assert reached[-1] == count
    assert [start for start, _, _ in windows.seen] == [0, *reached[:-1]]
    assert all(held <= WINDOW_BYTES + 50 * size for _, _, held in windows.seen)
    assert all(end - start <= WINDOW_OFFSETS for start, end, _ in windows.seen)


@pytest.mark.parametrize(("width", "most"), [(4_000, WINDOW_BYTES // 4_000 + 50), (WINDOW_BYTES, 1)])
def test_a_window_is_bounded_by_the_nulls_of_columns_that_its_files_may_lack(width: int, most: int) -> None:
    windows = Windows(pa.schema([("h", pa.binary(width))]))
    kafka = SimpleNamespace(reader=reader_of(10, 10_000))
    comparing = _Comparing(*cast("tuple[Any, Any, Any, Any, Any]", (None, None, None, kafka, None)))

    list(comparing._windows(cast(Any, windows), ("orders", 0), 0, 10_000 // (width // 4_000)))

    ends = [end for _, end, _ in windows.seen]
    assert [start for start, _, _ in windows.seen] == [0, *ends[:-1]]
    assert max(end - start for start, end, _ in windows.seen) <= most


def test_values_of_fixed_size_that_records_hold_count_once() -> None:
    windows = Windows(pa.schema([("h", pa.binary(4_000))]))
    kafka = SimpleNamespace(reader=reader_of(4_010, 10_000))
    comparing = _Comparing(*cast("tuple[Any, Any, Any, Any, Any]", (None, None, None, kafka, None)))

    list(comparing._windows(cast(Any, windows), ("orders", 0), 0, 10_000))

    assert windows.seen[0][1] >= WINDOW_BYTES // 4_010


@dataclass
class RowsInMemory:
    """In place of a scan: rows of `size` bytes, `copies` at each offset."""

    size: int
    offsets: Sequence[int]
    copies: int = 1
    asked: list[tuple[int, int]] = field(default_factory=list)

    def between(self, column: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        self.asked.append((start, end))
        for offset in self.offsets:
            if start <= offset < end:
                values = [bytes([n]) * self.size for n in range(self.copies)]
                for value in values:
                    yield pa.record_batch([pa.array([offset]), pa.array([value])], names=[column, "value"])


@dataclass
class Sides(PartitionComparison):
    """Compares nothing; notes what it would."""

    compared: list[tuple[list[int], list[int], int]] = field(default_factory=list)

    def _chunk(self, records: Records, rows: Sequence[Side], dead: Side) -> None:
        (only,) = rows
        self.compared.append((records.offsets.to_pylist(), only.offsets.tolist(), only.columns.nbytes))


def sides_of(rows: RowsInMemory, row_schema: pa.Schema) -> Sides:
    as_rows, nothing = SimpleNamespace(row_schema=row_schema), SimpleNamespace(between=lambda *_: iter(()))
    table = RowComparison(("t", 0), cast(Any, rows), "o", cast(Any, as_rows), SometimesKept())
    return Sides(("t", 0), [table], cast(Any, nothing), cast(Any, None), cast(Any, None))


@pytest.mark.parametrize("copies", [1, 3])
def test_rows_that_are_larger_than_their_records_are_compared_in_smaller_windows(copies: int) -> None:
    """As others left them, or for nulls of columns of fixed size. Rows that Kafka has not are noted all the same."""
    size = SIDE_BYTES // 64
    rows = RowsInMemory(size, [*range(100, 260), 400], copies)
    row_schema = pa.schema([("o", pa.int64()), ("value", pa.binary())])
    sides = sides_of(rows, row_schema)

    sides.window(100, 500, [records(100, 100, 10), records(200, 100, 10)])

    assert [offset for offsets, _, _ in sides.compared for offset in offsets] == list(range(100, 300))
    assert {offset for offsets, held, _ in sides.compared for offset in offsets if offset in held} == set(
        range(100, 260)
    )
    assert max(held for _, _, held in sides.compared) <= 65 * size
    assert list(sides.found.not_in_kafka) == [400]


def test_of_a_record_with_many_large_rows_one_is_held() -> None:
    rows = RowsInMemory(SIDE_BYTES // 4, [7], copies=9)
    row_schema = pa.schema([("o", pa.int64()), ("value", pa.binary())])
    sides = sides_of(rows, row_schema)

    sides.window(7, 8, [records(7, 1, 10)])

    assert [held for _, held, _ in sides.compared] == [[7]]


@pytest.mark.parametrize(("size", "most"), [(10, 5_000), (10_000, CHUNK_BYTES // 10_000 + 1), (CHUNK_BYTES, 16)])
def test_what_is_taken_at_once_shrinks_with_large_records_and_grows_slowly(size: int, most: int) -> None:
    """Nothing bounds the bytes of the first few: their size is not known."""
    limits = PollLimits(5_000, CHUNK_BYTES, exact=False, end=5_000)
    steps: list[int] = []
    while not limits.reached(sum(steps), sum(steps) * size):
        steps.append(limits.step(sum(steps), sum(steps) * size))

    assert sum(steps) == most
    assert steps[0] == 16
    assert all(step <= 4 * sum(steps[:n]) for n, step in enumerate(steps) if n)


@pytest.mark.parametrize("headers", [[], [("h", bytes(1 << 20))]])
def test_a_chunk_ends_with_the_record_that_reaches_its_bytes(headers: list[tuple[str, bytes]]) -> None:
    """Large records may follow small ones: a count of records bounds nothing."""
    large = [Message("t", 0, n, None, b"" if headers else bytes(1 << 20), headers) for n in range(100)]
    left = deque(large)
    consumer = MessageConsumer.__new__(MessageConsumer)
    consumer._stashes = {("t", 0): Stash()}
    polled_from = SimpleNamespace(consume=lambda count, _: [left.popleft() for _ in range(count)])
    consumer._consumer = cast(Any, polled_from)

    polled, _, _ = consumer._polled(("t", 0), PollLimits(5_000, CHUNK_BYTES, exact=True, end=5_000))

    assert polled == large[: CHUNK_BYTES >> 20]


def test_headers_count_as_the_memory_that_they_take() -> None:
    only = Records.of([0], [0], [b"ab"], [None], [[("key", b"value"), ("k", None)]], 1)

    assert only.memory == 2 + (8 + HEADER_MEMORY) + (1 + HEADER_MEMORY)


def letters_of_no_format() -> LetterComparison:
    """A comparison of letters whose values name no schema and can be decoded."""
    judge = SimpleNamespace(named_writers=lambda values, headers: {}, decode=lambda *_: iter(()))
    return LetterComparison(("t", 0), cast(Any, judge))


@pytest.mark.parametrize("stamp", [2**62, -(2**62), 253_402_300_800_000, None])
def test_a_dead_letters_stamp_is_compared_however_far_off(stamp: int | None) -> None:
    column = dict(letters_of_no_format()._columns(Records.of([0], [stamp], [None], [None], [None], 1)))["timestamp"]

    beyond = stamp is None or abs(stamp) >= 2**63 // 1000
    assert column.cast(pa.int64()).to_pylist() == [None if beyond else stamp * 1000]


@pytest.mark.parametrize(
    ("stored", "same"),
    [([{"key": "h", "value": b"v"}, {"key": "h", "value": None}], True), ([{"key": "h", "value": b"v"}], False),
     ([{"key": "h", "value": b"w"}, {"key": "h", "value": None}], False), (None, False)],
    ids=["same", "one is gone", "altered", "all are gone"],
)  # fmt: skip
@pytest.mark.parametrize(("text", "raw"), [(pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())])
def test_a_dead_letters_headers_are_compared(text: pa.DataType, raw: pa.DataType, stored: object, same: bool) -> None:
    """Strings are read with 32-bit offsets, or with 64 where another engine wrote the file so."""
    lists = pa.list_(pa.struct([("key", text), ("value", raw)]))
    columns = {"offset": [7], "key": pa.array([b"k"], raw), "value": pa.array([b"v"], raw),
               "timestamp": pa.array([0], pa.timestamp("us", "UTC")), "headers": pa.array([stored], lists),
               **{name: pa.nulls(1, LETTER.field(name).type) for name in LETTER.names[4:]}}  # fmt: skip
    side = _side([pa.RecordBatch.from_pydict(columns)], "offset", LETTER)
    sent = Records.of([7], [0], [b"k"], [b"v"], [[("h", b"v"), ("h", None)]], 8)

    found = letters_of_no_format().differences(sent, side.at(np.asarray([7])))

    assert [what.partition(": ")[0] for _, what in found] == ([] if same else ["dead letter, headers"])


def test_rows_that_kafka_compacted_away_are_noted_and_not_held() -> None:
    """The records of a compacted topic may be far apart, and the table has all that were between them."""

    def stored(first: int) -> pa.RecordBatch:
        offsets = pa.array(range(first, first + 1_000))
        return pa.record_batch([offsets, pa.array([b"x" * 100] * 1_000)], names=["offset", "value"])

    gone = BitMap64()

    given = (stored(first) for first in range(0, 100_000, 1_000))
    kept = list(only_in_kafka(given, "offset", np.asarray([7, 42_000]), gone=gone))

    assert [batch.column("offset").to_pylist() for batch in kept] == [[7], [42_000]]
    assert len(gone) == 99_998


def test_a_stamp_beyond_the_year_9999_is_shown_as_a_number() -> None:
    stamps = pa.array([2**62, 0], pa.timestamp("us", "UTC"))

    assert Quoting().value(stamps[0]) == str(2**62)
    assert "1970, 1, 1" in Quoting().value(stamps[1])


def test_dead_letters_with_stamps_beyond_the_year_9999_are_listed() -> None:
    columns: dict[str, Any] = {name: ["x"] * 2 for name in ("topic", "reason", "path", "detail", "batch_id")}
    numbers = {"partition": [0, 0], "offset": [1, 2], "schema_id": [None, 1]}
    stamps = {"timestamp": pa.array([2**62, 0], pa.timestamp("us", "UTC")),
              "read_at": pa.array([5, 4], pa.timestamp("us", "UTC"))}  # fmt: skip
    batch = pa.RecordBatch.from_pydict(
        {**columns, **numbers, **stamps, "key": [b"", b""], "value": [b"", b""], "headers": [None, None]}
    )

    letters = _letters(pa.Table.from_batches([batch]), NO_MARKS, None)

    assert [each.timestamp for each in letters] == [None, datetime(1970, 1, 1, tzinfo=UTC)]
