"""Numbers by identity, in bounded memory: of as many identities at a time as fit (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Identity = tuple[int, int]
"""The two halves of an identity."""

MOST_HELD = 8_000_000
"""So many identities with one number each take 192 MB, and twice as much while they are sorted; else fewer fit."""

Combine = Callable[[Sequence[Numbers], Numbers], Sequence[Numbers]]
"""Makes one row of each group of rows, by column. A group begins at each of the indexes, and no group is empty."""


def summed(columns: Sequence[Numbers], starts: Numbers) -> Sequence[Numbers]:
    return [np.add.reduceat(column, starts) for column in columns]


def greatest(columns: Sequence[Numbers], starts: Numbers) -> Sequence[Numbers]:
    """Return the greatest row of each group, compared from the first column on."""
    found, is_greatest = list[Numbers](), np.ones(len(columns[0]), np.bool_)
    counts = np.diff(np.append(starts, len(columns[0])))
    for column in columns:
        found.append(np.maximum.reduceat(np.where(is_greatest, column, np.iinfo(np.int64).min), starts))
        is_greatest &= column == np.repeat(found[-1], counts)
    return found


LOWEST: Identity = (-(2**63), -(2**63))


@dataclass(frozen=True, slots=True)
class Combined:
    """Distinct identities, ascending, by their halves, and the numbers of each."""

    first: Numbers
    second: Numbers
    numbers: tuple[Numbers, ...]


class ByIdentity:
    """Combines the rows of each identity from `start` on, each of as many numbers as there are `columns`.

    `end` is None, or the first identity that did not fit. Those from there on take another pass over the same numbers.
    """

    def __init__(
        self, combine: Combine, *, columns: int = 1, start: Identity = LOWEST, most: int | None = None
    ) -> None:
        self.end: Identity | None = None
        self._combine = combine
        self._start = start
        self._most = max(MOST_HELD * 3 // (2 + columns), 2) if most is None else most
        self._columns = [np.empty(self._most, np.int64) for _ in range(2 + columns)]
        self._held = 0

    def add(self, first: Numbers, second: Numbers, *numbers: Numbers) -> None:
        """Add rows by their identity. Those out of range are left out."""
        rows = [first, second, *numbers]
        while len(rows[0]):
            inside = self._covers(rows[0], rows[1])
            given = [column[inside] for column in rows]
            room = self._most - self._held
            taken = min(len(given[0]), room)
            for held, column in zip(self._columns, given, strict=True):
                held[self._held : self._held + taken] = column[:taken]
            self._held += taken
            if self._held == self._most:
                self._make_room()
            rows = [column[taken:] for column in given]

    def combined(self) -> Combined:
        self._combine_held()
        first, second, *numbers = (column[: self._held] for column in self._columns)
        return Combined(first, second, tuple(numbers))

    def _covers(self, first: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
        return _not_before(first, second, self._start) & (self.end is None or ~_not_before(first, second, self.end))

    def _make_room(self) -> None:
        """Combine what is held. If this leaves more than half, give up the greater half of the identities."""
        self._combine_held()
        if self._held > self._most // 2:
            self._held //= 2
            first, second, *_ = self._columns
            self.end = (int(first[self._held]), int(second[self._held]))

    def _combine_held(self) -> None:
        if not self._held:
            return
        first, second, *numbers = (column[: self._held] for column in self._columns)
        order = _ascending(first, second)
        for column in (first, second, *numbers):
            column[:] = column[order]
        begins = np.ones(self._held, np.bool_)
        begins[1:] = (np.diff(first) != 0) | (np.diff(second) != 0)
        starts = np.flatnonzero(begins)
        combined = self._combine(numbers, starts)
        for column in (first, second):
            column[: len(starts)] = column[starts]
        for column, values in zip(numbers, combined, strict=True):
            column[: len(starts)] = values
        self._held = len(starts)


def counted(read: Callable[[], Iterable[tuple[Numbers, Numbers]]]) -> Iterator[Combined]:
    """Yield how many rows each identity has, ascending. `read` yields the identities of all rows, in each pass."""
    start: Identity | None = LOWEST
    while start is not None:
        held = ByIdentity(summed, start=start)
        for first, second in read():
            held.add(first, second, np.ones(len(first), np.int64))
        yield held.combined()
        start = held.end


def _ascending(first: Numbers, second: Numbers) -> npt.NDArray[np.intp]:
    """Return the indexes that sort identities. Two of them hardly ever have equal first halves only."""
    order = np.argsort(first)
    sorted_first, sorted_second = first[order], second[order]
    if ((np.diff(sorted_first) == 0) & (sorted_second[1:] < sorted_second[:-1])).any():
        return np.lexsort((second, first))
    return order


def _not_before(first: Numbers, second: Numbers, identity: Identity) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = (first > identity[0]) | ((first == identity[0]) & (second >= identity[1]))
    return flags
