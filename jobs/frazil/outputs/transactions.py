"""The transactions in which the shards of an output send one epoch, all of them at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from frazil.model.outputs import Marker, Part
from frazil.outputs.epoch_records import KeysAndValues
from frazil.outputs.placing import Placing
from frazil.outputs.ports import Encoded, ShardProducer
from frazil.outputs.unsent import Epoch

LONGEST_SECONDS = 300.0
"""After this long, a transaction is committed and the rest of its epoch goes into another one: the broker aborts those
that take 10 minutes."""


@dataclass(slots=True)
class ShardSending:
    """One shard that sends an epoch. `marker` is the last one that it committed, `at` the time of the next one.

    `passed` counts the epoch's records of the shard, also those that earlier transactions have sent.
    """

    shard: int
    producer: ShardProducer
    marker: Marker
    at: datetime
    clock: Callable[[], float]
    passed: int = 0
    sent: int = 0
    _began: float | None = None

    def add(self, records: Encoded) -> None:
        """Send those of the next records that were not sent before."""
        before = 0 if self.marker.part is None else self.marker.part.records
        left = records.after(max(before - self.passed, 0))
        self.passed += len(records)
        if len(left):
            self._begin()
            self.producer.add(left)
            self.sent += len(left)

    def split(self, epoch: Epoch) -> None:
        """Commit what was sent so far, if the transaction has lasted long."""
        if self._began is not None and self.clock() - self._began >= LONGEST_SECONDS:
            self._commit(replace(self.marker, part=Part(epoch.snapshot.id, self.passed)))

    def finish(self, epoch: Epoch) -> None:
        self._begin()
        self._commit(epoch.marker)

    def _begin(self) -> None:
        if self._began is None:
            self.producer.begin()
            self._began = self.clock()

    def _commit(self, marker: Marker) -> None:
        self.marker = replace(marker, at=self.at)
        self.producer.commit(self.marker)
        self._began = None


def send_epoch(epoch: Epoch, shards: Sequence[ShardSending], records: Iterator[KeysAndValues], placing: Placing) -> int:
    """Send an epoch's records in the shards that lack it, and return their number.

    If anything fails, open transactions are aborted. Those that were committed stay, with their markers.
    """
    with _aborted_on_failure(shards):
        for divided in placing.divided(records):
            for each in shards:
                each.add(divided[each.shard])
                each.split(epoch)
        for each in shards:
            each.finish(epoch)
    return sum(each.sent for each in shards)


def send_marker(producer: ShardProducer, marker: Marker) -> None:
    """Commit a marker in a transaction without records."""
    producer.begin()
    producer.commit(marker)


@contextmanager
def _aborted_on_failure(shards: Sequence[ShardSending]) -> Iterator[None]:
    try:
        yield
    except Exception:
        for each in shards:
            each.producer.abort()
        raise
