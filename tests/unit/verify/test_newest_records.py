"""The newest record of each key beside the row of the key, whatever batches of rows it is in."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.model.partition_numbers import PartitionNumbers
from frazil.modes.followed import FollowedColumns
from frazil.proof.verification import FindingKind
from frazil.verify.first_offsets import OffsetsFirst
from frazil.verify.identities import HALVES
from frazil.verify.keys import NewestRecords

SOURCE = ("orders", 0)
BATCH = 10_000


def rows(keys: Sequence[int], offsets: Sequence[int]) -> pa.RecordBatch:
    halves = {half: pa.array(keys, pa.int64()) for half in HALVES}
    return pa.RecordBatch.from_pydict(
        {**halves, "kafka_partition": pa.nulls(len(keys), pa.int32()).fill_null(0), "kafka_offset": pa.array(offsets)}
    )


def newest_records(batches: Sequence[pa.RecordBatch]) -> NewestRecords:
    """Return a comparison with a table that has these rows."""

    def read() -> Iterator[pa.RecordBatch]:
        return iter(batches)

    table: Any = SimpleNamespace(batches=read)
    numbers = PartitionNumbers((SOURCE[0],))
    columns = FollowedColumns("kafka_partition", "kafka_offset", numbers=numbers)
    return NewestRecords(numbers, table, columns, offsets_first=OffsetsFirst({}))


def add(newest: NewestRecords, keys: Sequence[int], offsets: Sequence[int]) -> None:
    key = np.array(keys, np.int64)
    newest.add(key, key, [np.zeros(len(key), np.int64), np.array(offsets, np.int64)], is_delete=0)


def test_of_several_rows_of_a_key_the_newest_is_compared() -> None:
    newest = newest_records([rows([1, 2, 1], [10, 11, 12]), rows([2, 3, 1], [30, 5, 3]), rows([4], [40])])
    add(newest, [1, 2, 3, 4, 5], [11, 31, 4, 40, 9])

    (found,) = newest.compared()

    stale, (_, row_offsets) = found.others[FindingKind.STALE_ROW]
    assert (stale.tolist(), row_offsets.tolist()) == ([31], [30])
    assert found.lost.tolist() == [9]


def test_the_rows_of_many_keys_take_little_memory_beside_the_keys() -> None:
    count = 20 * BATCH
    keys = range(count)
    batches = [
        rows(keys[start : start + BATCH], range(count + start, count + start + BATCH)) for start in keys[::BATCH]
    ]
    newest = newest_records(batches)
    add(newest, keys, keys)

    tracemalloc.start()
    found = list(newest.compared())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [len(each.lost) for each in found] == [0]
    assert most / count < 100  # bytes, beside the 32 of each key that is held


def test_nothing_is_held_of_keys_that_are_compared() -> None:
    """Each partition has its own, and they stay until the last one is compared."""
    tracemalloc.start()
    newest = newest_records([])
    held, _ = tracemalloc.get_traced_memory()
    add(newest, [1], [1])
    list(newest.compared())

    assert not newest.goes_on()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (held > 100_000_000, left < 1_000_000) == (True, True)
