"""Ranges are distributed over tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from values_of_tables import state

from frazil.materialize.ingest.distribute import SMALL_BATCH, tasks_of
from frazil.model.ingested import IngestTask
from frazil.model.plan import BatchPlan, OffsetRange, WriterSchemas


def tasks(lengths: list[int], parallelism: int) -> tuple[IngestTask, ...]:
    ranges = tuple(OffsetRange("orders", n, 0, length, length, 1) for n, length in enumerate(lengths))
    plan = BatchPlan("t", "b", 1, state(), ranges, WriterSchemas({}, {}), ())
    return tasks_of(plan, None, parallelism=parallelism)  # type: ignore[arg-type]


def loads(shared: tuple[IngestTask, ...]) -> list[int]:
    return sorted(sum(each.end - each.start for each in task.ranges) for task in shared)


def test_a_small_batch_is_one_task() -> None:
    assert loads(tasks([SMALL_BATCH // 2] * 2, parallelism=8)) == [SMALL_BATCH]
    assert len(tasks([SMALL_BATCH // 2, SMALL_BATCH // 2 + 1], parallelism=8)) == 2


def test_tasks_are_about_equally_long() -> None:
    assert loads(tasks([70_000, 10_000, 30_000, 30_000], parallelism=2)) == [70_000, 70_000]
    assert loads(tasks([100_000, 1, 1], parallelism=8)) == [1, 1, 100_000]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.integers(1, 8))
def test_every_range_goes_to_one_task_and_no_task_is_overfull(lengths: list[int], parallelism: int) -> None:
    shared = tasks(lengths, parallelism)

    assert sorted(each.partition for task in shared for each in task.ranges) == list(range(len(lengths)))
    if len(shared) > 1:
        assert max(loads(shared)) <= sum(lengths) / len(shared) + max(lengths)
