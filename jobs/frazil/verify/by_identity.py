"""Numbers by identity, in bounded memory: of as many identities at a time as fit (docs/decisions/0036)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Identity = tuple[int, int]
"""The two halves of an identity."""

MOST_HELD = 8_000_000
"""So many identities take 192 MB, and twice as much while they are sorted."""

LOWEST: Identity = (-(2**63), -(2**63))


@dataclass(frozen=True, slots=True)
class Combined:
    """Distinct identities, ascending, by their halves, and the number of each."""

    first: Numbers
    second: Numbers
    number: Numbers


class ByIdentity:
    """Combines the numbers of each identity from `start` on: `combine` makes one of two, as `numpy.add` does.

    `end` is None, or the first identity that did not fit. Those from there on take another pass over the same numbers.
    """

    def __init__(self, combine: np.ufunc, *, start: Identity = LOWEST, most: int | None = None) -> None:
        self.end: Identity | None = None
        self._combine = combine
        self._start = start
        self._most = MOST_HELD if most is None else most
        self._first, self._second, self._number = (np.empty(self._most, np.int64) for _ in range(3))
        self._held = 0

    def add(self, first: Numbers, second: Numbers, number: Numbers) -> None:
        """Add rows by their identity. Those out of range are left out."""
        while len(first):
            inside = self._covers(first, second)
            given = [column[inside] for column in (first, second, number)]
            room = self._most - self._held
            taken = min(len(given[0]), room)
            for held, column in zip((self._first, self._second, self._number), given, strict=True):
                held[self._held : self._held + taken] = column[:taken]
            self._held += taken
            if self._held == self._most:
                self._make_room()
            first, second, number = (column[taken:] for column in given)

    def combined(self) -> Combined:
        self._combine_held()
        first, second, number = (column[: self._held] for column in (self._first, self._second, self._number))
        return Combined(first, second, number)

    def _covers(self, first: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
        return _not_before(first, second, self._start) & (self.end is None or ~_not_before(first, second, self.end))

    def _make_room(self) -> None:
        """Combine what is held. If this leaves more than half, give up the greater half of the identities."""
        self._combine_held()
        if self._held > self._most // 2:
            self._held //= 2
            self.end = (int(self._first[self._held]), int(self._second[self._held]))

    def _combine_held(self) -> None:
        if not self._held:
            return
        order = _ascending(self._first[: self._held], self._second[: self._held])
        for column in (self._first, self._second, self._number):
            column[: self._held] = column[order]
        begins = np.ones(self._held, np.bool_)
        begins[1:] = (np.diff(self._first[: self._held]) != 0) | (np.diff(self._second[: self._held]) != 0)
        starts = np.flatnonzero(begins)
        self._number[: len(starts)] = self._combine.reduceat(self._number[: self._held], starts)
        self._first[: len(starts)], self._second[: len(starts)] = self._first[starts], self._second[starts]
        self._held = len(starts)


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
