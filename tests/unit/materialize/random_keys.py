"""A table of plain records to which anything happens, and whose topic has some of which the schema comes late."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from modelled_keys import KeyedTable, Row, Rules, Sent
from ordered_changelogs import Partitions, milliseconds
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from random_histories import Act, Campaign
from values_of_tables import SPEC
from writer_schemas import WriterSchemas

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import REPLAY_STEPS
from frazil.materialize.replay.answer import ask
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, TableSpec, Trigger

KEYS = "abcde"
THEIRS = "theirs"
"""The id of rows that another engine inserts."""
METADATA = ("kafka_key", "kafka_partition", "kafka_offset", "kafka_timestamp")
VALID = ("valid_from", "valid_to", "is_current")
ON_TOMBSTONE = {"append": "row", "deduplicate": "dead_letter"}


def spec_for(rules: Rules, **changes: Any) -> TableSpec:
    given: dict[str, Any] = {
        "write": rules.write,
        "on_tombstone": ON_TOMBSTONE.get(rules.write, "delete"),
        "order_by": "kafka_timestamp" if rules.by_time else None,
        "identity": ("id",) if rules.write == "deduplicate" else (),
        "bad_record_limit": BadRecordLimit.off(),
        "trigger": Trigger(timedelta(seconds=60), rows=5, bytes=10**6),
        **changes,
    }
    return replace(SPEC, **given)


@dataclass(kw_only=True)
class KeysCampaign(Campaign):
    """A topic of plain records."""

    rules: Rules
    table: KeyedTable
    schemas: WriterSchemas
    time: int = field(default=10)
    """The time of the last record, which goes up and down."""

    @classmethod
    def of(cls, rules: Rules, folder: Path, draw: random.Random) -> KeysCampaign:
        world = Partitions(IcebergLake(CatalogSettings("jdbc", str(folder))))
        partition_by = draw.choice([(), ("bucket(2, id)",)])
        spec, schemas = spec_for(rules, partition_by=partition_by), WriterSchemas(world.registry)
        return cls(draw=draw, world=world, spec=spec, table=KeyedTable(rules), rules=rules, schemas=schemas)

    def acts(self) -> Sequence[Act]:
        return (*super().acts(), self.replay, self.replay_dies_after_each_step, self.register)

    def of_others(self) -> Sequence[Act]:
        """What a history has of a row that others delete or insert is what other tests say."""
        own = super().of_others()
        return [act for act in own if act.__name__ in ("compact", "expire")] if self.rules.write == "history" else own

    def happens(self) -> set[str]:
        return super().happens() | {f"dies after {each}" for each in REPLAY_STEPS}

    # --- what is written

    def send(self) -> None:
        draw = self.draw
        key = None if self.chance(7) else draw.choice(KEYS)
        if key is not None and self.chance(15):
            self._send(key, self.schemas.late_payload({"id": key, "n": draw.randint(1, 9)}), late=self.registered)
        elif self.chance(20):
            self._send(key, None)
        else:
            self._send(key, self.schemas.payload({"id": key, "n": draw.randint(1, 9)}))

    def _send(self, key: str | None, value: bytes | None, *, late: int | None = None) -> None:
        any_partition = key is None or self.rules.by_time or self.rules.write in ("append", "deduplicate")
        number = self.draw.randrange(2) if key is None or any_partition else KEYS.index(key) % 2
        there = self.world.records[number]
        self.time = max(1, self.time + self.draw.randint(-9, 12))
        fields = None if value is None else tuple(self.schemas.sent[value].items())
        sent = Sent(key, fields, self.time, late)
        self.log.append(f"  {number}@{len(there)} {sent}")
        self.events[number, len(there)] = sent
        there.append((None if key is None else key.encode(), value, self.time))

    def evolve(self) -> None:
        self.schemas.widen()
        self.did("evolve")

    # --- dead letters whose schema comes

    @property
    def registered(self) -> int:
        return self.schemas.unknown

    def register(self) -> None:
        """Register the schema that some dead letters have. Later records have another one."""
        self.settle()
        self.schemas.register_late()
        self.did("register")

    def replay(self) -> None:
        """Replay all dead letters: at once, or by the next driver."""
        if self._view() is None:
            return
        self.settle()
        if not self.table.replayable(self.registered):
            self._write_letters()
        expected = self.table.replayable(self.registered)
        if self.chance(50):
            result = self.driver().replay(self._request())
            assert result.replayed == len(expected), (result, expected)
        else:
            ask(self.world.lake, self.spec.identifier, self._request())
            self.driver().batch()
        if expected:
            self.did("replay")

    def replay_dies_after_each_step(self) -> None:
        """Let processes die, one after each step of a replay, and compare the table after each of them."""
        for step in REPLAY_STEPS:
            if not self.table.replayable(self.registered):
                self._write_letters()
            self.dies_after(step, lambda run: run.replay(self._request()))
        self.did("replay_dies_after_each_step")

    def _write_letters(self) -> None:
        """Let the table have dead letters that can be replayed: of keys that have rows."""
        for key in self.draw.sample(KEYS, 3):
            self._send(key, self.schemas.payload({"id": key, "n": 0}))
            self._send(key, self.schemas.late_payload({"id": key, "n": 1}), late=self.registered)
        self.catch_up()
        self.register()

    def _request(self) -> ReplayRequest:
        return ReplayRequest(uuid.uuid4().hex[:8], by="tester", at="2026-03-01T12:00:00Z")

    # --- rows

    def forget(self) -> BooleanExpression | None:
        found = sorted((row.place, key) for key, row in self.table.rows.items())
        if not found:
            return None
        (partition, offset), key = self.draw.choice(found)
        del self.table.rows[key]
        self.table.lacks_rows = True
        return And(EqualTo("kafka_partition", partition), EqualTo("kafka_offset", offset))

    def row_of_others(self) -> dict[str, object]:
        return {"id": THEIRS, "n": 1}

    def rows(self) -> list[Any]:
        view = self._view()
        if view is None:
            return []
        names = [each.name for each in view.columns if each.name in ("id", "n") or each.name.startswith("more_")]
        columns = [*METADATA, *(VALID if self.rules.write == "history" else ()), *names]
        found = [row for part in self.world.lake.read(view, columns=columns, equal={}) for row in part.to_pylist()]
        own = [row for row in found if row["id"] != THEIRS]
        assert len(found) - len(own) == self.inserted, "rows of others"
        return sorted((self._of(row, names) for row in own), key=lambda row: row[0])

    def _of(self, row: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
        place = (row["kafka_partition"], row["kafka_offset"])
        values = tuple(sorted((name, row[name]) for name in names if row[name] is not None))
        valid = None
        if self.rules.write == "history":
            valid = tuple(None if row[each] is None else milliseconds(row[each]) for each in VALID[:2])
            assert row["is_current"] is (valid[1] is None)
        return place, row["kafka_key"], milliseconds(row["kafka_timestamp"]), values, valid

    def expected(self) -> list[Any]:
        rows = self.table.versions() if self.rules.write == "history" else self.table.rows.values()
        return sorted((self._expected(row) for row in rows), key=lambda row: row[0])

    def _expected(self, row: Row) -> tuple[Any, ...]:
        sent = row.sent
        values = tuple(sorted((name, value) for name, value in sent.fields or () if value is not None))
        return row.place, sent.key, sent.stamp, values, row.valid
