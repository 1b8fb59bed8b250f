"""A topic whose records are not written in their order, its table, and a model of both in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from changelogs import NAMES, UPSERT, Changelog
from hypothesis import strategies as st
from values_of_tables import topic
from whole_batches import World

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.plan import OffsetRange
from frazil.model.progress import Counts
from frazil.model.settings import CatalogSettings
from frazil.records import Records
from tests.fakes.clients_in_memory import TopicsInMemory

Stamped = tuple[str, int | None, int, int]
"""A key, a value, a timestamp in milliseconds, and a partition; a value of None is a null."""
STAMPED = st.tuples(st.sampled_from("abcd"), st.integers(0, 9) | st.none(), st.integers(1, 12), st.integers(0, 1))


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@dataclass
class Partitions(World):
    """A topic with a list of records for each partition: key, value and timestamp."""

    records: dict[int, list[tuple[bytes | None, bytes | None, int]]] = field(default_factory=lambda: {0: [], 1: []})
    compacted: set[tuple[int, int]] = field(default_factory=set)
    """The partition and offset of each record that compaction has removed."""

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        number = wanted.partition
        offsets = [at for at in range(wanted.start, wanted.end) if (number, at) not in self.compacted]
        found = [self.records[number][at] for at in offsets]
        keys, values, stamps = ([each[n] for each in found] for n in range(3))
        yield Records.of(offsets, stamps, keys, values, [None] * len(found), wanted.end, 0)  # type: ignore[arg-type]

    @property
    def topics(self) -> TopicsInMemory:
        return TopicsInMemory({"orders": topic({number: (0, len(found)) for number, found in self.records.items()})})


Order = tuple[int, int, int]
"""A timestamp, a partition and an offset."""


@dataclass
class OrderedChangelog(Changelog):
    """A table that `kafka_timestamp` orders, and what it should have."""

    newest: dict[str, Order] = field(default_factory=dict)
    """The newest record of each key, also one that deleted it."""
    live: dict[str, Order] = field(default_factory=dict)
    """The records that should be rows."""
    pending: list[tuple[str, bool, Order]] = field(default_factory=list)

    @classmethod
    def at(cls, folder: Path, **changes: object) -> OrderedChangelog:
        given = {"table": f"t{next(NAMES)}", "order_by": "kafka_timestamp", **changes}
        lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
        return cls(Partitions(lake), replace(UPSERT, **given))  # type: ignore[arg-type]

    @property
    def partitions(self) -> Partitions:
        assert isinstance(self.world, Partitions)
        return self.world

    def send_at(self, *records: Stamped) -> None:
        for key, value, stamp, partition in records:
            there = self.partitions.records[partition]
            self.pending.append((key, value is None, (stamp, partition, len(there))))
            there.append((key.encode(), None if value is None else self.payload({"n": value}), stamp))

    def catch_up(self) -> None:
        super().catch_up()
        self.settle()

    def settle(self) -> None:
        """Take what was sent since as one batch."""
        before = dict(self.newest)
        for key, is_delete, order in self.pending:
            late = key in before and order < before[key]
            one = Counts(duplicates=1) if late else Counts(deletes=1) if is_delete else Counts(rows=1)
            self.counts += Counts(read=1) + one
            if order > self.newest.get(key, (0, 0, -1)):
                self.newest[key] = order
                self.live.pop(key, None)
                if not is_delete:
                    self.live[key] = order
        self.pending = []

    def records(self) -> dict[str, Order]:
        """Return the records that are the rows, by key."""
        found: dict[str, Order] = {}
        names = ["kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset"]
        for batch in self.world.lake.read(self.view, columns=names, equal={}):
            for key, stamp, *place in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                assert key not in found
                found[key] = (milliseconds(stamp), *place)
        return found

    def check(self) -> None:
        assert self.records() == self.live
        verification = self.verify()
        assert verification.findings == ()
        assert verification.counts == self.counts
