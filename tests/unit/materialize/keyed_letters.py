"""A topic of which some records are dead letters until their key's schema is known, its table, and a model of both."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from changelogs import NAMES, UPSERT
from ordered_changelogs import Partitions, milliseconds
from whole_batches import LONG, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import Observer
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.materialize.run import TableRun
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

KEY = record(a_field("id", "string"), name="Key")
KEY_AGAIN = record(a_field("id", "string"), name="KeyAgain")
BY_TIME = {"order_by": "kafka_timestamp"}
VALUE_ID, KEY_ID, LATE_ID = 1, 2, 3
REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
Place = tuple[int, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record, which is a dead letter at first if it `is_late`. A value of None is a null."""

    key: str
    n: int | None
    stamp: int
    place: Place
    is_late: bool

    @property
    def order(self) -> tuple[int, int, int]:
        return (self.stamp, *self.place)


@dataclass
class LateKeys:
    """A table that follows keys, of a topic with two partitions, in which some keys have a schema that comes late."""

    world: Partitions
    spec: TableSpec
    sent: list[Sent] = field(default_factory=list)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The time of the driver; tasks take that of the machine."""

    @classmethod
    def at(cls, folder: Path, **changes: Any) -> LateKeys:
        given = {"key": "avro", "value": "avro", "bad_record_limit": BadRecordLimit.off(), **changes}
        world = Partitions(IcebergLake(CatalogSettings("jdbc", str(folder))))
        world.registry.register("orders-value", LONG)
        world.registry.register("orders-key", KEY)
        return cls(world, replace(UPSERT, table=f"t{next(NAMES)}", **given))

    def send(self, *records: tuple[str, int | None, int], partition: int = 0, late: bool = False) -> None:
        """Write records, each with a key, a value and a timestamp in milliseconds."""
        there = self.world.records[partition]
        for key, n, stamp in records:
            self.sent.append(Sent(key, n, stamp, (partition, len(there)), late))
            framed_key = framed(LATE_ID, KEY_AGAIN, {"id": key}) if late else framed(KEY_ID, KEY, {"id": key})
            there.append((framed_key, None if n is None else framed(VALUE_ID, LONG, {"n": n}), stamp))

    def driver(self, observe: Observer = lambda when, step: None) -> TableRun:
        run = self.world.table(self.spec)
        run.clients = replace(run.clients, observe=observe, now=lambda: self.now, new_id=lambda: uuid.uuid4().hex)
        return run

    def catch_up(self) -> None:
        run = self.driver()
        while not isinstance(run.batch(), NothingToDo):
            pass

    def batch(self) -> None:
        assert isinstance(self.driver().batch(), Published)

    def fix(self) -> None:
        """Register the schema that dead letters lacked."""
        self.world.registry.register("others-key", KEY_AGAIN)
        self.world.registry.missing.clear()

    def replay(self, observe: Observer = lambda when, step: None, **chosen: Any) -> ReplayResult:
        return self.driver(observe).replay(replace(REQUEST, **chosen))

    def later(self, days: float) -> None:
        self.now += timedelta(days=days)

    @property
    def view(self) -> TableView:
        view = self.world.lake.load(self.spec.identifier)
        assert view is not None
        return view

    def letters(self) -> set[Place]:
        """Return the dead letters that were not replayed."""
        found = list_dead_letters(self.world.lake, self.spec, limit=99)
        return {(letter.partition, letter.offset) for letter in found.newest}

    def stored(self, *more: str) -> list[tuple[Any, ...]]:
        """Return the rows: key, partition, offset, and further columns as milliseconds if they are times."""
        names = ["kafka_key", "kafka_partition", "kafka_offset", *more]
        rows = [row for part in self.world.lake.read(self.view, columns=names, equal={}) for row in part.to_pylist()]
        return sorted((row["kafka_key"]["id"], *(_plain(row[name]) for name in names[1:])) for row in rows)

    def applied(self) -> list[Sent]:
        """Return the records that the table has read, without those that are dead letters."""
        letters = self.letters()
        return [each for each in self.sent if each.place not in letters]

    def newest(self) -> list[tuple[Any, ...]]:
        """Return the rows that `write: upsert` should have."""
        rows: dict[str, Sent] = {}
        for each in sorted(self.applied(), key=self.order):
            rows[each.key] = each
        return sorted((each.key, *each.place) for each in rows.values() if each.n is not None)

    def versions(self) -> list[tuple[Any, ...]]:
        """Return the rows that `write: history` should have, with their intervals."""
        found: list[tuple[Any, ...]] = []
        for key in {each.key for each in self.sent}:
            records = sorted((each for each in self.applied() if each.key == key), key=self.order)
            found += self._of_key(key, records)
        return sorted(found, key=lambda row: row[:3])

    def _of_key(self, key: str, records: Iterable[Sent]) -> Iterable[tuple[Any, ...]]:
        rows: list[list[Any]] = []
        time, is_open = 0, False
        for each in records:
            if each.n is None and not is_open and self.spec.order_by is None:
                continue
            time = each.stamp if self.spec.order_by else max(time, each.stamp)
            if is_open:
                rows[-1][-1] = time
            is_open = each.n is not None
            if is_open:
                rows.append([key, *each.place, time, None])
        return map(tuple, rows)

    def order(self, each: Sent) -> tuple[int, ...]:
        return each.place if self.spec.order_by is None else each.order

    def check(self) -> None:
        """Compare the table with the model, with its own figures, and with Kafka."""
        if self.spec.keeps_history:
            assert self.stored("valid_from", "valid_to") == self.versions()
        elif self.spec.write == "upsert":
            assert self.stored() == self.newest()
        for verification in (self.verify(), self.against_kafka()):
            assert verification.findings == ()
            assert verification.counts.dead_letters == len(self.letters())

    def verify(self) -> Verification:
        return verify_table(self.world.lake, self.spec)

    def against_kafka(self) -> Verification:
        side = KafkaSide(self.world.topics, cast(Any, self.world), self.world.registry)
        return verify_table(self.world.lake, self.spec, kafka=side)


def _plain(value: object) -> object:
    return milliseconds(value) if isinstance(value, datetime) else value
