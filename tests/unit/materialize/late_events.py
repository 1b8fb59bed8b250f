"""A topic of change events, of which some are dead letters until their key's schema is known, and a model of both."""

from __future__ import annotations

import struct as binary
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from change_streams import KEY, ChangeStream
from ordered_changelogs import Partitions

from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import Observer
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.change_events import ChangeEvents
from frazil.model.progress import TableState
from frazil.model.spec import BadRecordLimit
from tests.fakes.connect_samples import INT, Schema, avro_payload, avro_schema
from tests.fakes.connect_samples import struct as connect_struct
from tests.fakes.debezium_samples import POSTGRES, UNAVAILABLE, Event, order, postgres

KEY_AGAIN = connect_struct("shop.public.orders.KeyAgain", id=INT)
LATE_ID = 3
REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
LACKING: dict[str, tuple[str, ...]] = {"whole": (), "notes": ("notes",), "tags": ("tags",), "both": ("notes", "tags")}
Kind = Literal["whole", "notes", "tags", "both", "keeps", "delete", "tombstone", "truncate"]
"""What an event is: a whole row, one that lacks these columns, or without `after`; or it takes out one row, or all."""
Place = tuple[int, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that is a dead letter at first if it `is_late`. `position` is that in the source's log."""

    key: int
    kind: Kind
    value: str
    position: int
    place: Place
    is_late: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the model, without its key."""

    notes: str | None
    tags: tuple[str, ...] | None
    place: Place
    is_deleted: bool = False


@dataclass
class LateEvents(ChangeStream):
    """A table of change events. Of its topic, the source's position orders two partitions, or the offset one."""

    sent: list[Sent] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, connector: str | None = None, *, soft: bool = False) -> LateEvents:
        made = cls.at(
            folder,
            ChangeEvents(connector=connector, soft_deletes=soft),
            on_tombstone="skip" if soft or connector else "delete",
            bad_record_limit=BadRecordLimit.off(),
        )
        assert isinstance(made, cls)
        made.world = Partitions(made.world.lake, made.world.registry)
        made.partitions.records = {0: [], 1: []} if connector else {0: []}
        return made

    @property
    def partitions(self) -> Partitions:
        assert isinstance(self.world, Partitions)
        return self.world

    def put(self, *events: tuple[int, Kind, str], at: int = 0, partition: int = 0, late: bool = False) -> None:
        """Write events: key, kind, and the value of all columns that are given. `at` is the first one's position."""
        there = self.partitions.records[partition]
        for number, (key, kind, value) in enumerate(events, at):
            self.sent.append(Sent(key, kind, value, number, (partition, len(there)), late))
            event = _event(key, kind, value, number)
            framed = None if event is None else _framed(self.register("value", POSTGRES), POSTGRES, event)
            schema_id = LATE_ID if late else self.register("key", KEY)
            there.append((_framed(schema_id, KEY_AGAIN if late else KEY, {"id": key}), framed, 1_000))

    def put_truncate(self, schema: Schema, *, schema_id: int) -> None:
        """Write a truncate, whose value has this schema."""
        there = self.partitions.records[0]
        self.sent.append(Sent(0, "truncate", "", 0, (0, len(there)), is_late=True))
        there.append((None, _framed(schema_id, schema, postgres("t")), 1_000))

    def driver(self, observe: Observer = lambda when, step: None) -> TableRun:
        run = self.world.table(self.spec)
        run.clients = replace(run.clients, observe=observe, new_id=lambda: uuid.uuid4().hex)
        return run

    def batch(self) -> None:
        assert isinstance(self.driver().batch(), Published)

    def fix(self) -> None:
        """Register the schema that dead letters lacked."""
        self.world.registry.register("others-key", avro_schema(KEY_AGAIN))
        self.world.registry.missing.clear()

    def replay(self, observe: Observer = lambda when, step: None, **chosen: Any) -> ReplayResult:
        return self.driver(observe).replay(replace(REQUEST, **chosen))

    @property
    def state(self) -> TableState:
        return standing(self.view, pipeline=self.spec.pipeline).state

    def waiting(self) -> set[Place]:
        """Return the dead letters that were not replayed."""
        found = list_dead_letters(self.world.lake, self.spec, limit=99)
        return {(letter.partition, letter.offset) for letter in found.newest}

    def stored(self) -> dict[int, Row]:
        """Return the rows by their key."""
        names = ("id", "notes", "tags", "kafka_partition", "kafka_offset")
        found: dict[int, Row] = {}
        for id_, notes, tags, partition, offset, *deleted in self.rows(*names, *(("__deleted",) if self.soft else ())):
            assert id_ not in found
            found[id_] = Row(notes, None if tags is None else tuple(tags), (partition, offset), *deleted)
        return found

    @property
    def soft(self) -> bool:
        events = self.spec.value_settings.change_events
        return events is not None and events.soft_deletes

    def model(self) -> dict[int, Row]:
        """Return the rows that the table should have, without the records that are dead letters."""
        waiting, rows = self.waiting(), dict[int, Row]()
        for each in sorted(self.sent, key=lambda s: (s.position, *s.place) if self.spec.order else s.place):
            if each.place not in waiting:
                self._apply(rows, each)
        return rows

    def _apply(self, rows: dict[int, Row], sent: Sent) -> None:
        before = rows.get(sent.key)
        match sent.kind:
            case "truncate":
                rows.clear()
            case "delete" if self.soft:
                kept = before or Row(None, None, sent.place)
                rows[sent.key] = replace(kept, place=sent.place, is_deleted=True)
            case "tombstone" if self.spec.order or self.soft:
                pass
            case "delete" | "tombstone":
                rows.pop(sent.key, None)
            case "keeps":
                if before is not None:
                    rows[sent.key] = replace(before, place=sent.place, is_deleted=False)
            case kind:
                kept = before or Row(None, None, sent.place)
                notes = kept.notes if "notes" in LACKING[kind] else sent.value
                tags = kept.tags if "tags" in LACKING[kind] else (sent.value,)
                rows[sent.key] = Row(notes, tags, sent.place)

    def check(self) -> None:
        """Compare the table with the model, with its own figures, and with Kafka."""
        assert self.stored() == self.model()
        assert self.verified().counts.dead_letters == len(self.waiting())


def _event(key: int, kind: Kind, value: str, position: int) -> Event | None:
    match kind:
        case "tombstone":
            return None
        case "delete":
            return postgres("d", before=order(key), lsn=position)
        case "truncate":
            return postgres("t", lsn=position)
        case "keeps":
            return postgres("u", lsn=position)
    given = {"notes": value, "tags": [value]} | {each: UNAVAILABLE[each] for each in LACKING[kind]}
    return postgres("u", after=order(key, **given), lsn=position)


def _framed(schema_id: int, schema: Schema, value: Any) -> bytes:
    return cast(bytes, binary.pack(">bI", 0, schema_id) + avro_payload(schema, value))
