"""Which ranges of a task are fetched while one of them is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import KafkaException

from frazil.adapters.kafka.partition_consumer import PartitionConsumer
from frazil.model.plan import OffsetRange

FETCHED_RANGES = 24
"""Ranges that are fetched at a time, the one that is read included: so many queues may be full."""

RECORDS_AHEAD = 50_000
"""Ranges after the one that is read are fetched until they have so many offsets: the last of them may exceed it."""

BYTES_AHEAD = 64 << 20
"""The same limit in bytes: a compressed request, of which each queue may hold one, can unpack to a thousand times."""

UNSEEN_RECORD_BYTES = 100 << 10
"""The assumed size of records before the first are read."""


class Prefetch:
    """Fetches the next few ranges of a task, in their order. Half of them are replaced at once, in one request.

    The next range is always fetched; more are if they are small, because large ones would only take memory.
    """

    def __init__(self, consumer: PartitionConsumer, ranges: Sequence[OffsetRange]) -> None:
        self._consumer = consumer
        self._waiting = deque(ranges)
        self._fetched: list[OffsetRange] = []
        self._began = False
        self._record_bytes: float | None = None

    def seen(self, records: int, size: int) -> None:
        """Learn from a chunk how large records are: those of the ranges ahead may be as large as any before."""
        self._record_bytes = max(self._record_bytes or 0, size / records)

    def reach(self, wanted: OffsetRange) -> None:
        """Fetch the next range, and some after it."""
        if len(self._fetched) <= FETCHED_RANGES // 2 and self._ahead(wanted) <= self._most_ahead() / 2:
            self._fill(wanted)

    def leave(self, wanted: OffsetRange) -> None:
        """Fetch the range no longer. What the client refuses does not matter: the range has been read."""
        if wanted not in self._fetched:
            self._waiting.remove(wanted)
            return
        self._fetched.remove(wanted)
        with suppress(KafkaException):
            self._consumer.remove([wanted])

    def end(self) -> None:
        """Fetch nothing. If the client refuses, the next assignment takes the place of this one all the same."""
        with suppress(KafkaException):
            self._consumer.unassign()

    def _fill(self, wanted: OffsetRange) -> None:
        added: list[OffsetRange] = []
        while self._waiting and self._has_room(wanted) and not self._is_fetched(self._waiting[0]):
            added.append(self._waiting.popleft())
            self._fetched.append(added[-1])
        if added and self._began:
            self._consumer.add(added)
        elif added:
            self._began = True
            self._consumer.assign(added)

    def _has_room(self, wanted: OffsetRange) -> bool:
        return len(self._fetched) < FETCHED_RANGES and self._ahead(wanted) < self._most_ahead()

    def _most_ahead(self) -> float:
        """The limit of offsets that are fetched ahead; by their size, if that is the lower one."""
        size = UNSEEN_RECORD_BYTES if self._record_bytes is None else self._record_bytes
        return min(RECORDS_AHEAD, BYTES_AHEAD / max(size, 1))

    def _ahead(self, wanted: OffsetRange) -> int:
        """The offsets of the ranges that are fetched while this one is read."""
        return sum(each.end - each.start for each in self._fetched if each != wanted)

    def _is_fetched(self, wanted: OffsetRange) -> bool:
        """Return whether another range of the same partition is fetched."""
        return any((each.topic, each.partition) == (wanted.topic, wanted.partition) for each in self._fetched)
