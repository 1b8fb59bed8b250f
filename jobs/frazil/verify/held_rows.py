"""As many rows at a time as fit in memory, all of each identity (docs/decisions/0036)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Rows as columns of longs, of which the first one is the first half of the identity."""

LEAST = -(2**63)
"""The least first half of an identity."""


class HeldRows:
    """Rows of the identities from `start` until before `stop`, by their first half.

    `end` is `stop`, or the first one that did not fit; None if there is none. An identity with more than `most` rows
    fits alone.
    """

    def __init__(self, start: int, *, most: int, stop: int | None = None) -> None:
        self.end = stop
        self._start = start
        self._most = most
        self._parts: list[Rows] = []
        self._count = 0

    def add(self, rows: Rows) -> None:
        first = rows[0]
        inside = (first >= self._start) & (True if self.end is None else first < self.end)
        self._parts.append(rows[:, inside])
        self._count += int(inside.sum())
        if self._count > self._most:
            self._make_room()

    def rows(self, *, columns: int) -> Rows:
        """Return the rows, which have so many columns."""
        return np.concatenate([np.empty((columns, 0), np.int64), *self._parts], axis=1)

    def _make_room(self) -> None:
        """Give up the greater half of the identities. One that has all of the rows stays."""
        rows = np.concatenate(self._parts, axis=1)
        first = np.unique(rows[0])
        if len(first) == 1:
            self._most *= 2
        else:
            middle = np.partition(rows[0], rows.shape[1] // 2)[rows.shape[1] // 2]
            self.end = int(first[max(np.searchsorted(first, middle), 1)])
            rows = rows[:, rows[0] < self.end]
        self._parts, self._count = [rows], rows.shape[1]
