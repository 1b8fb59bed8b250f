"""A batch's budget of records and bytes, shared by the partitions that have something to read.

Water-filling: each partition gets an equal share, and what small ones leave goes to larger ones. So one partition with
a backlog gets nearly all of a batch, while 999 partitions with a record each are read as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.model.plan import OffsetRange
from frazil.model.spec import Trigger

RecordBytes = Mapping[tuple[str, int], int]
"""The mean size of a record by topic and partition, as far as known."""


def fit(
    pending: Sequence[OffsetRange], trigger: Trigger, *, record_bytes: RecordBytes, turn: int
) -> tuple[OffsetRange, ...]:
    """Cut ranges to the batch's budget. Every range advances, unless there are more ranges than records or bytes.

    `turn` is a number that grows with every batch: in that case, it decides whose turn it is.
    """
    served = _served(pending, min(trigger.rows, trigger.bytes), turn)
    rows = water_fill([each.end - each.start for each in served], trigger.rows)
    sizes = [record_bytes.get((each.topic, each.partition)) for each in served]
    shares = share_bytes(rows, sizes, trigger.bytes)
    return tuple(
        replace(each, end=each.start + count, max_bytes=share)
        for each, count, share in zip(served, rows, shares, strict=True)
    )


def _served(pending: Sequence[OffsetRange], at_most: int, turn: int) -> Sequence[OffsetRange]:
    """Return all ranges, or the next `at_most` in round-robin order."""
    if len(pending) <= at_most:
        return pending
    first = turn * at_most % len(pending)
    return sorted((*pending[first:], *pending[:first])[:at_most], key=lambda each: (each.topic, each.partition))


def water_fill(demands: Sequence[int], budget: int) -> list[int]:
    """Share a budget so that no share exceeds its demand; the others share what is left.

    The shares add up to the smaller of the budget and of all demands.
    """
    shares = [0] * len(demands)
    for rank, index in enumerate(sorted(range(len(demands)), key=lambda index: demands[index])):
        shares[index] = min(demands[index], budget // (len(demands) - rank))
        budget -= shares[index]
    return shares


def share_bytes(rows: Sequence[int], record_bytes: Sequence[int | None], budget: int) -> list[int]:
    """Share a budget of bytes by what each range is expected to need, at least 1 each.

    A size that is not known is taken to be the mean of the known ones. The part of the budget that no range is
    expected to need is shared out in proportion, since sizes are only estimates.
    """
    if not rows:
        return []
    mean = _mean_size(rows, record_bytes, budget)
    needs = [max(math.ceil(count * (size or mean)), 1) for count, size in zip(rows, record_bytes, strict=True)]
    if sum(needs) > budget:
        return water_fill(needs, budget)
    total = sum(needs)
    return [need * budget // total for need in needs]


def _mean_size(rows: Sequence[int], record_bytes: Sequence[int | None], budget: int) -> float:
    known = [(count, size) for count, size in zip(rows, record_bytes, strict=True) if size]
    if not known:
        return budget / sum(rows)
    return sum(count * size for count, size in known) / sum(count for count, _ in known)
