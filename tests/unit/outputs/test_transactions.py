"""An epoch that takes long is sent in several transactions, each record once, wherever it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pyarrow as pa
import pytest

from frazil.model.outputs import Marker, Part, ShardPlace
from frazil.model.snapshot import Snapshot
from frazil.outputs.placing import Placing
from frazil.outputs.transactions import LONGEST_SECONDS, ShardSending, send_epoch
from frazil.outputs.unsent import Epoch
from tests.fakes.output_topics_in_memory import OutputTopicsInMemory

NOW = datetime(2026, 11, 20, tzinfo=UTC)
FIRST = Marker(1, 11)
EPOCH = Epoch(2, Snapshot(22, 11, "append", {}, NOW))
BATCHES = [[b"a", b"b", b"c"], [b"d"], [], [b"e", b"f"], [b"g", b"h"]]
RECORDS = [record for batch in BATCHES for record in batch]


class Broken(Exception):  # noqa: N818 - what a test breaks with
    """The process ends here."""


class Cluster:
    """A topic with two partitions, and an output that sends one epoch to it in some shards."""

    def __init__(self, shards: int, seconds: float) -> None:
        self.topics = OutputTopicsInMemory({"clean": 2})
        self.places = [ShardPlace("0b9c", "clean", "clean", shard) for shard in range(shards)]
        self.placing = Placing(shards, 2)
        self.seconds = seconds
        for place in self.places:
            self.topics.offsets[place.group, place.shard] = FIRST

    def send(self) -> None:
        """Do what a new process does with what the epoch lacks."""
        clock = count(0, self.seconds)
        markers = [self.topics.offset(place) for place in self.places]
        shards = [
            ShardSending(place.shard, self.topics.open(place), marker, NOW, lambda: next(clock))
            for place, marker in zip(self.places, markers, strict=True)
            if marker is not None and marker.epoch < EPOCH.number
        ]
        send_epoch(EPOCH, shards, self._keyed(), self.placing)

    @staticmethod
    def _keyed() -> Iterator[tuple[pa.Array, pa.Array]]:
        for batch in BATCHES:
            records = pa.array(batch, pa.binary())
            yield records, records

    def committed(self) -> list[bytes]:
        return [value or b"" for _, value in self.topics.committed["clean"]]


def test_a_short_epoch_is_one_transaction() -> None:
    cluster = Cluster(shards=1, seconds=0)

    cluster.send()

    assert cluster.topics.transactions == [len(RECORDS)]
    assert cluster.committed() == RECORDS


def test_a_long_epoch_is_sent_in_parts_and_ends_with_its_own_marker() -> None:
    cluster = Cluster(shards=1, seconds=LONGEST_SECONDS)
    seen: list[Marker | None] = []
    cluster.topics.reach = lambda moment: seen.extend(
        map(cluster.topics.offset, cluster.places) if moment == "committed" else ()
    )

    cluster.send()

    assert cluster.topics.transactions == [3, 1, 2, 2, 0]
    assert seen == [
        *(Marker(1, 11, part=Part(22, records)) for records in (3, 4, 6, 8)),
        Marker(2, 22),
    ]
    assert cluster.committed() == RECORDS


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("at", range(40))
def test_broken_anywhere_it_goes_on_after_the_last_part(at: int, shards: int) -> None:
    cluster = Cluster(shards, seconds=LONGEST_SECONDS / 2)
    moments = count()

    def reach(moment: str) -> None:
        if next(moments) == at:
            raise Broken(moment)

    cluster.topics.reach = reach
    try:
        cluster.send()
    except Broken:
        cluster.send()

    assert sorted(cluster.committed()) == sorted(RECORDS)
    assert set(cluster.topics.offsets.values()) == {Marker(2, 22)}
