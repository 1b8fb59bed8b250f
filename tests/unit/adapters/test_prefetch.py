"""How much of a task's ranges is fetched ahead."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from frazil.adapters.kafka.partition_consumer import Polled, PollLimits
from frazil.adapters.kafka.prefetch import (
    BYTES_AHEAD,
    FETCHED_RANGES,
    RECORDS_AHEAD,
    UNSEEN_RECORD_BYTES,
    Prefetch,
)
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields


class Assignment:
    """Keeps which partitions are fetched, and the requests that were made for that (`PartitionConsumer`)."""

    def __init__(self) -> None:
        self.fetched: list[OffsetRange] = []
        self.requests = 0

    def assign(self, ranges: Sequence[OffsetRange]) -> None:
        self.fetched = []
        self.add(ranges)

    def add(self, ranges: Sequence[OffsetRange]) -> None:
        self.fetched += ranges
        self.requests += 1

    def remove(self, ranges: Sequence[OffsetRange]) -> None:
        for each in ranges:
            self.fetched.remove(each)

    def unassign(self) -> None:
        self.fetched = []

    def forget_errors(self) -> None: ...

    def poll(self, wanted: OffsetRange, limits: PollLimits, optional: OptionalFields) -> Polled:
        raise NotImplementedError

    def position(self, wanted: OffsetRange) -> int:
        raise NotImplementedError

    def close(self) -> None: ...


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("orders", number, 0, size, size, 1 << 30) for number, size in enumerate(sizes)]


def fetched_while_reading(ranges: Sequence[OffsetRange], record_bytes: int = 10) -> tuple[list[list[int]], int]:
    """The partitions that are fetched while each range is read, and how many requests that took."""
    consumer = Assignment()
    prefetch = Prefetch(consumer, ranges)
    seen = []
    for wanted in ranges:
        prefetch.reach(wanted)
        seen.append([each.partition for each in consumer.fetched])
        prefetch.seen(wanted.end, wanted.end * record_bytes)
        prefetch.leave(wanted)
    return seen, consumer.requests


def test_only_one_large_range_is_fetched_ahead() -> None:
    seen, _ = fetched_while_reading(ranges_of(*[RECORDS_AHEAD] * 5))

    assert seen == [[0, 1], [1, 2], [2, 3], [3, 4], [4]]


def test_many_small_ranges_are_fetched_ahead_in_few_requests() -> None:
    count = 10 * FETCHED_RANGES
    seen, requests = fetched_while_reading(ranges_of(*[1] * count))

    assert max(map(len, seen)) == FETCHED_RANGES
    assert min(map(len, seen[: count - FETCHED_RANGES])) > FETCHED_RANGES // 2 - 1
    assert requests <= 2 * count / FETCHED_RANGES


@pytest.mark.parametrize("size", [1, 10_000, RECORDS_AHEAD // 3, RECORDS_AHEAD - 1, RECORDS_AHEAD, 10 * RECORDS_AHEAD])
def test_the_next_range_is_always_fetched_and_the_offsets_ahead_are_limited(size: int) -> None:
    seen, _ = fetched_while_reading(ranges_of(*[size] * 50))

    assert all(fetched[:2] == [number, number + 1] for number, fetched in enumerate(seen[:-1]))
    assert max(len(fetched) - 1 for fetched in seen) * size < RECORDS_AHEAD + size


def test_a_large_range_among_small_ones_ends_what_is_fetched_ahead() -> None:
    seen, _ = fetched_while_reading(ranges_of(1, 1, RECORDS_AHEAD, 1, 1))

    assert seen == [[0, 1, 2], [1, 2], [2, 3, 4], [3, 4], [4]]


def test_few_ranges_of_large_records_are_fetched_ahead() -> None:
    seen, _ = fetched_while_reading(ranges_of(*[1_000] * 50), record_bytes=100_000)

    assert max(len(fetched) - 1 for fetched in seen) * 1_000 * 100_000 < BYTES_AHEAD + 1_000 * 100_000


def test_records_are_taken_for_large_until_the_first_are_read() -> None:
    size = BYTES_AHEAD // UNSEEN_RECORD_BYTES // 2
    seen, _ = fetched_while_reading(ranges_of(*[size] * 50))

    assert list(map(len, seen[:2])) == [4, FETCHED_RANGES]


def test_the_largest_records_count_where_sizes_differ() -> None:
    consumer, ranges = Assignment(), ranges_of(*[1_000] * 50)
    prefetch = Prefetch(consumer, ranges)
    prefetch.reach(ranges[0])
    prefetch.seen(10, 10 * 100_000)
    prefetch.seen(990, 990)
    prefetch.leave(ranges[0])
    prefetch.reach(ranges[1])

    assert len(consumer.fetched) == 2
