"""How a batch's budget of records and bytes is shared by partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from values_of_tables import SPEC, progress, spec, stands, state, topic

from frazil.materialize.budget import fit, share_bytes, water_fill
from frazil.materialize.plan import plan_batch
from frazil.model.plan import BatchPlan, NothingToDo, OffsetRange, WriterSchemas
from frazil.model.progress import PartitionProgress
from frazil.model.spec import Trigger


def pending(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange("orders", n, 0, length, length, 0) for n, length in enumerate(lengths)]


def budget(rows: int, size: int = 10**9) -> Trigger:
    return Trigger(SPEC.trigger.every, rows=rows, bytes=size)


def lengths(ranges: tuple[OffsetRange, ...]) -> dict[int, int]:
    return {each.partition: each.end - each.start for each in ranges}


@pytest.mark.parametrize(
    ("demands", "rows", "shares"),
    [
        ([10, 10], 100, [10, 10]),
        ([10, 10], 10, [5, 5]),
        ([1, 100, 100], 21, [1, 10, 10]),
        ([100, 2, 1], 30, [27, 2, 1]),
        ([100], 1, [1]),
        ([3, 3, 3], 8, [2, 3, 3]),
        ([], 8, []),
    ],
)
def test_shares_are_equal_and_what_one_leaves_goes_to_others(demands: list[int], rows: int, shares: list[int]) -> None:
    assert water_fill(demands, rows) == shares


LENGTH = st.one_of(st.integers(1, 5), st.integers(1, 10**8))
SIZE = st.one_of(st.none(), st.integers(1, 10**6))


@given(
    st.lists(st.tuples(LENGTH, SIZE), min_size=1, max_size=12),
    st.integers(1, 10**7),
    st.integers(1, 10**10),
    st.integers(0, 1_000),
)
def test_a_budget_is_kept_and_used_up_while_records_are_pending(
    partitions: list[tuple[int, int | None]], rows: int, size: int, turn: int
) -> None:
    ranges = pending(*(length for length, _ in partitions))
    known = {("orders", n): each for n, (_, each) in enumerate(partitions) if each is not None}

    got = fit(ranges, budget(rows, size), record_bytes=known, turn=turn)

    counts, shares = lengths(got), [each.max_bytes for each in got]
    assert len(counts) == min(len(ranges), rows, size)
    assert min(counts.values()) >= 1
    assert min(shares) >= 1
    assert sum(counts.values()) == min(sum(partitions[n][0] for n in counts), rows)
    assert size - len(got) < sum(shares) <= size


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(12, 300))
def test_no_partition_gets_less_than_an_equal_share(given_lengths: list[int], rows: int) -> None:
    got = lengths(fit(pending(*given_lengths), budget(rows), record_bytes={}, turn=0))

    fair = rows // len(given_lengths)
    assert all(got[n] >= min(length, fair) for n, length in enumerate(given_lengths))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 1_000))
def test_partitions_take_turns_where_they_are_more_than_the_records_of_a_batch(
    partitions: int, rows: int, turn: int
) -> None:
    batches = -(-partitions // rows)

    got = [fit(pending(*[9] * partitions), budget(rows), record_bytes={}, turn=turn + n) for n in range(batches)]

    assert {each.partition for ranges in got for each in ranges} == set(range(partitions))


@pytest.mark.parametrize(
    ("rows", "sizes", "size", "shares"),
    [
        ([5, 5], [None, None], 1_000, [500, 500]),
        ([1, 999], [None, None], 1_000, [1, 999]),
        ([10, 10], [10, 10], 1_000, [500, 500]),
        ([10, 1_000], [10, 10], 1_000, [100, 900]),
        ([10, 10], [1, 9], 1_000, [100, 900]),
        ([10, 1_000], [None, 10], 1_000, [100, 900]),
    ],
)
def test_bytes_follow_what_a_range_is_expected_to_need(
    rows: list[int], sizes: list[int | None], size: int, shares: list[int]
) -> None:
    assert share_bytes(rows, sizes, size) == shares


@dataclass
class Drain:
    """A table that reads partitions of records of one size each, batch after batch, as tasks do."""

    ends: Mapping[int, int]
    size: Mapping[int, int]
    trigger: Trigger
    rows_read: list[int] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)

    def run(self, *, at_most: int) -> None:
        known = {n: progress(0, 0) for n in self.ends}
        facts = topic({n: (0, end) for n, end in self.ends.items()})
        here = stands(state())
        for epoch in range(at_most):
            at = replace(here, state=state(known, epoch=epoch))
            plan = plan_batch(spec(trigger=self.trigger), at, (facts,), schemas=WriterSchemas({}, {}), batch_id="b")
            if isinstance(plan, NothingToDo):
                return
            assert isinstance(plan, BatchPlan)
            read = {each.partition: self._read(each) for each in plan.ranges}
            known |= read
            self.rows_read.append(sum(p.next - p.start for p in read.values()))
            self.bytes_read.append(sum((p.next - p.start) * self.size[n] for n, p in read.items()))
        raise AssertionError(f"not drained after {at_most} batches")

    def _read(self, each: OffsetRange) -> PartitionProgress:
        size = self.size[each.partition]
        end = min(each.end, each.start - (-each.max_bytes // size))
        return PartitionProgress(origin=0, start=each.start, next=end, record_bytes=size)


def test_a_backlog_in_one_of_many_partitions_is_drained_in_large_batches() -> None:
    ends = {**dict.fromkeys(range(999), 1), 999: 50_000_000}
    drain = Drain(ends, dict.fromkeys(range(1_000), 1_000), budget(5_000_000, 10**9))

    drain.run(at_most=60)

    assert len(drain.bytes_read) <= 52


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(1, 500)), min_size=1, max_size=6))
def test_a_batch_is_full_by_records_or_bytes_once_sizes_are_known(partitions: list[tuple[int, int]]) -> None:
    ends, sizes = {n: p[0] for n, p in enumerate(partitions)}, {n: p[1] for n, p in enumerate(partitions)}
    drain = Drain(ends, sizes, budget(200, 20_000))

    drain.run(at_most=1_000)

    assert all(read <= 20_000 + sum(sizes.values()) for read in drain.bytes_read)
    full = [rows == 200 or read >= 20_000 for rows, read in zip(drain.rows_read, drain.bytes_read, strict=True)]
    assert all(full[1:-1])
