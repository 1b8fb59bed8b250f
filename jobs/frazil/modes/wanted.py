"""The identities of a batch, to find which stored rows have one of them (docs/decisions/0036).

A stored row is compared by the first half of its identity: at first with a table of 1 byte for each of a few bits of
it, which leaves out most rows that are not wanted, then by a search. Only those found are compared by the second half.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

SLOTS_OF_EACH = 16
"""At least so many slots of the table for each identity: less than 1 row in 16 gets past it by chance."""
LEAST_BITS, MOST_BITS = 12, 24


def as_array(values: npt.NDArray[np.integer]) -> array[int]:
    """Return whole numbers as an array of 64 bits each, as they are kept in tasks and their results."""
    return array("q", values.astype(np.int64, copy=False).tobytes())


def as_numbers(values: array[int]) -> Numbers:
    return np.frombuffer(values, np.int64)


def ascending_once(parts: Sequence[Numbers]) -> Numbers:
    """Return the different numbers of all parts, ascending. Fast for sorted parts, where `np.unique` hashes all."""
    ascending = np.sort(np.concatenate([np.empty(0, np.int64), *parts]), kind="stable")
    is_new = np.ones(len(ascending), np.bool_)
    is_new[1:] = ascending[1:] != ascending[:-1]
    return ascending[is_new]


class Wanted:
    """Distinct identities, as their two halves, to be found among others."""

    def __init__(self, first: Numbers, second: Numbers) -> None:
        order = np.argsort(first, kind="stable")
        self._places, self._first, self._second = order, first[order], second[order]
        bits = min(max((SLOTS_OF_EACH * len(first)).bit_length(), LEAST_BITS), MOST_BITS)
        self._mask = np.int64((1 << bits) - 1)
        self._is_used = np.zeros(1 << bits, np.bool_)
        self._is_used[first & self._mask] = True

    def any_within(self, least: int, greatest: int) -> bool:
        """Return whether a first half is one of these numbers or between them."""
        at = int(np.searchsorted(self._first, least))
        return at < len(self._first) and int(self._first[at]) <= greatest

    def candidates(self, first: Numbers) -> tuple[Numbers, Numbers]:
        """Return the indexes of the rows whose identity may be wanted, by its first half, ascending.

        With each comes where `find` begins to look for it.
        """
        if not len(self._first):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        likely = np.flatnonzero(self._is_used[first & self._mask])
        given = first[likely]
        found = np.searchsorted(self._first, given)
        found[found == len(self._first)] = 0
        is_same = self._first[found] == given
        return likely[is_same], found[is_same]

    def find(self, first: Numbers, second: Numbers, begin: Numbers | None = None) -> Numbers:
        """Return the place of each identity among those that are wanted; -1 where it is not.

        `begin` is what `candidates` returned with them.
        """
        places = np.full(len(first), -1, np.int64)
        open_, at = np.arange(len(first)), np.searchsorted(self._first, first) if begin is None else begin
        while len(open_):
            within = at < len(self._first)
            open_, at = open_[within], at[within]
            is_same = self._first[at] == first[open_]
            open_, at = open_[is_same], at[is_same]
            is_equal = self._second[at] == second[open_]
            places[open_[is_equal]] = self._places[at[is_equal]]
            open_, at = open_[~is_equal], at[~is_equal] + 1
        return places
