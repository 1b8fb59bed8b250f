"""Offsets of one partition, added up as they stream by: how many, their sums, which of them, and which twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from frazil.model.progress import MODULUS, OffsetSums
from frazil.proof.verification import NAMED

Offsets = npt.NDArray[np.int64]

TopicPartition = tuple[str, int]
"""A topic and the number of its partition."""


@dataclass(slots=True)
class Tally:
    """The count and sums of a partition's rows (or dead letters) in the table.

    `seen` are the distinct offsets within `[origin, next)`; `sums` are theirs. A compressed bitmap holds a run of
    offsets in a few bytes and any others in at most some bytes each, so 10^8 of them fit in memory.
    """

    origin: int
    next: int
    rows: int = 0
    sums: OffsetSums = field(default_factory=OffsetSums)
    seen: BitMap64 = field(default_factory=BitMap64)
    doubled: BitMap64 = field(default_factory=BitMap64)
    outside: int = 0
    named_outside: list[int] = field(default_factory=list)

    def add(self, offsets: Offsets, *, name_up_to: int) -> None:
        self.rows += len(offsets)
        inside = (offsets >= self.origin) & (offsets < self.next)
        if not inside.all():
            strangers = offsets[~inside]
            self.outside += len(strangers)
            self.named_outside = (self.named_outside + strangers[:name_up_to].tolist())[:name_up_to]
            offsets = offsets[inside]
        self._add_inside(offsets)

    def _add_inside(self, offsets: Offsets) -> None:
        new = bitmap_of(offsets)
        again = self.seen & new
        if again or len(new) < len(offsets):
            values, times = np.unique(offsets, return_counts=True)
            self.doubled |= again | bitmap_of(values[times > 1])
            offsets = offsets_of(new - again)
        self.sums = self.sums + sums_of(offsets)
        self.seen |= new

    @property
    def surplus(self) -> int:
        """Rows beyond the first of each offset."""
        return self.rows - self.outside - len(self.seen)


@dataclass(slots=True)
class Tallies:
    """All rows of a table. `unsourced` counts those without a complete source: no record of Frazil became such a row.

    `partly_sourced` counts those that lack only a part of their source. `strangers` counts rows by sources that are not
    in the state.
    """

    by_source: dict[TopicPartition, Tally]
    rows: int = 0
    unsourced: int = 0
    partly_sourced: int = 0
    strangers: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, topic: str, partition: int, offsets: Offsets) -> None:
        tally = self.by_source.get((topic, partition))
        if tally is None:
            self.strangers[topic, partition] = self.strangers.get((topic, partition), 0) + len(offsets)
        else:
            tally.add(offsets, name_up_to=NAMED)


def bitmap_of(offsets: Offsets) -> BitMap64:
    return BitMap64(array("Q", offsets.astype(np.uint64).tobytes()))


def offsets_of(bitmap: BitMap64) -> Offsets:
    return np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)


def sums_of(offsets: Offsets) -> OffsetSums:
    """Sums that wrap around at 2^64, as unsigned machine words do."""
    words = offsets.astype(np.uint64)
    return OffsetSums(int(words.sum(dtype=np.uint64)), int((words * words).sum(dtype=np.uint64)))


def absent(tally: Tally, others: BitMap64) -> BitMap64:
    """Offsets of `[origin, next)` that are neither seen nor among `others`."""
    every = BitMap64()
    every.add_range(tally.origin, tally.next)
    return every - tally.seen - others


def missing_one(expected: OffsetSums, found: OffsetSums) -> int | None:
    """Return the one offset that explains the difference of two sums, or None."""
    offset = (expected.offsets - found.offsets) % MODULUS
    squares = (expected.squares - found.squares) % MODULUS
    return offset if offset * offset % MODULUS == squares else None


def each_partition(partitions: Offsets) -> Iterator[tuple[int, npt.NDArray[np.bool_] | None]]:
    """Yield each partition and the mask of its rows; None instead of a mask if all rows are in it."""
    values = np.unique(partitions)
    for value in values.tolist():
        yield value, None if len(values) == 1 else partitions == value
