"""A topic with duplicates, its table, and a model of both in plain Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from changelogs import NAMES, Changelog
from hypothesis import strategies as st
from ordered_changelogs import Partitions
from values_of_tables import SPEC
from whole_batches import drained

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.state import standing
from frazil.model.progress import Counts
from frazil.model.settings import CatalogSettings

Event = tuple[str | None, int, int]
"""An id, or None for a null; a timestamp in milliseconds, and a partition."""
Place = tuple[int, int, int]
"""A timestamp, a partition and an offset."""
EVENT = st.tuples(st.sampled_from("abcde") | st.none(), st.integers(1, 6), st.integers(0, 1))
BY_ID = replace(
    SPEC,
    write="deduplicate",
    value="json",
    identity=("id",),
    on_tombstone="dead_letter",
    value_settings=replace(SPEC.value_settings, fields=json.dumps({"id": "string", "n": "long"})),
)


@dataclass
class Duplicates(Changelog):
    """A table with the first record of each id, and what it should have."""

    first: dict[str, Place] = field(default_factory=dict)
    pending: list[tuple[str, Place]] = field(default_factory=list)

    @classmethod
    def at(cls, folder: Path, **changes: object) -> Duplicates:
        spec = replace(BY_ID, table=f"t{next(NAMES)}", **changes)  # type: ignore[arg-type]
        return cls(Partitions(IcebergLake(CatalogSettings("jdbc", str(folder)))), spec)

    @property
    def partitions(self) -> Partitions:
        assert isinstance(self.world, Partitions)
        return self.world

    def put(self, value: Mapping[str, object] | None, *, stamp: int = 1, partition: int = 0) -> Place:
        """Write a record that the model does not know."""
        there = self.partitions.records[partition]
        there.append((b"k", None if value is None else self.payload(value), stamp))
        return stamp, partition, len(there) - 1

    def send_events(self, *events: Event) -> None:
        for event, stamp, partition in events:
            place = self.put({"id": event, "n": stamp}, stamp=stamp, partition=partition)
            if event is None:
                self.counts += Counts(read=1, dead_letters=1)
            else:
                self.pending.append((event, place))

    def catch_up(self) -> None:
        """Read all, in several batches if the table does not know a schema yet: a batch ends where it is used."""
        drained(self.world, self.spec, after_batch=self.settle)

    def settle(self) -> None:
        """Take what the table has read since as one batch."""
        view = self.world.lake.load(self.spec.identifier)
        if view is None:
            return
        (source,) = standing(view, pipeline=self.spec.pipeline).state.sources
        reached = {number: progress.next for number, progress in source.partitions.items()}
        taken = [each for each in self.pending if each[1][2] < reached.get(each[1][1], 0)]
        for event, place in sorted(taken, key=lambda each: each[1]):
            is_first = event not in self.first
            self.counts += Counts(read=1, rows=1) if is_first else Counts(read=1, duplicates=1)
            self.first.setdefault(event, place)
        self.pending = [each for each in self.pending if each not in taken]

    def records(self) -> dict[str, Place]:
        """Return the records that are the rows, by id."""
        found: dict[str, Place] = {}
        names = ["id", "kafka_timestamp", "kafka_partition", "kafka_offset"]
        for batch in self.world.lake.read(self.view, columns=names, equal={}):
            for event, stamp, *place in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                assert event not in found
                found[event] = (round(stamp.timestamp() * 1000), *place)
        return found

    def rows(self) -> dict[str, int]:
        return {event: offset for event, (_, _, offset) in self.records().items()}

    def check(self) -> None:
        assert self.records() == self.first
        verification = self.verify()
        assert verification.findings == ()
        assert verification.counts == self.counts
