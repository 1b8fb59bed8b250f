"""A fair queue for batches: tables take turns, so that a backlog of a few does not hold up the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LEAST = 4
MOST = 64
"""Bounds of the number of batches in flight: below, one table's commit would idle the cluster; above, the driver."""

BATCHES_PER_CORE = 2
"""While one batch has a task on a core, another one is in the driver's steps: its plan, its commits."""

LOOK_SECONDS = 0.5
"""How often a waiting table looks whether it should stop, and whether the cluster has grown."""


def in_flight(cores: int) -> int:
    """Return the number of batches that may be in flight on a cluster that runs `cores` tasks at the same time."""
    return min(max(LEAST, BATCHES_PER_CORE * cores), MOST)


class FairQueue:
    """Gives slots in the order in which they were asked for.

    A table asks for a slot once a batch, so a table with a backlog goes to the back of the queue after each one.
    `size` is asked each time: the cluster's cores are known only once Spark runs. `stopped` ends all waiting.
    """

    def __init__(self, size: Callable[[], int], *, stopped: Callable[[], bool]) -> None:
        self._size = size
        self._stopped = stopped
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._taken = 0

    @contextmanager
    def slot(self) -> Iterator[bool]:
        """Wait for a slot and hold it. Yields False, without a slot, if the run was stopped first."""
        granted = self._wait()
        try:
            yield granted
        finally:
            if granted:
                self._release()

    def _wait(self) -> bool:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while not self._stopped() and not self._is_next(ticket):
                self._changed.wait(LOOK_SECONDS)
            granted = not self._stopped()
            self._waiting.remove(ticket)
            self._taken += granted
            self._changed.notify_all()
            return granted

    def _is_next(self, ticket: object) -> bool:
        return self._waiting[0] is ticket and self._taken < self._size()

    def _release(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()
