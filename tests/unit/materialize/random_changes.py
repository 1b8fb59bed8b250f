"""A table of change events to which anything happens."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelled_changes import TAKEN, Event, Place, Table
from ordered_changelogs import Partitions
from pyiceberg.expressions import BooleanExpression, EqualTo
from random_histories import Act, Campaign
from written_changes import Setting, Writer, spec_for

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.settings import CatalogSettings

KINDS = (*"cruuuudd", "keeps", "tombstone", "m", "heartbeat", "unknown", "no_after", "bad_value", "null_key")
THEIRS = 1000
"""The id of rows that another engine inserts."""
COMPARED = ("notes", "tags", "phone", "__op", "__deleted")


@dataclass(kw_only=True)
class ChangesCampaign(Campaign):
    """A topic of change events."""

    setting: Setting
    table: Table
    evolved: bool = False

    @classmethod
    def of(cls, setting: Setting, folder: Path, draw: random.Random) -> ChangesCampaign:
        world = Partitions(IcebergLake(CatalogSettings("jdbc", str(folder))))
        world.records = {number: [] for number in range(setting.partitions)}
        made = cls(setting=setting, draw=draw, world=world, spec=spec_for(setting), table=Table(setting.rules))
        made.writer.register()
        return made

    @property
    def writer(self) -> Writer:
        return Writer(self.setting.form, self.world.registry)

    def acts(self) -> Sequence[Act]:
        return (*super().acts(), self.wait) if self.setting.rules.by_source else super().acts()

    def send(self) -> None:
        rules, count, key = self.setting.rules, self.setting.partitions, self.draw.randint(1, 4)
        kind = self.draw.choice((*KINDS, "t") if self.setting.has_truncates else KINDS)
        if kind == "heartbeat" and self.setting.form == "json":
            kind = "m"
        lsn = None if self.chance(5) else self.draw.randint(1, 30)
        number = str(len(self.events))
        phone = number if self.evolved and self.chance(70) else None
        event = Event(kind, key, lsn)
        if kind in ("c", "r", "u"):
            lacking = frozenset(name for name in TAKEN if self.chance(30)) if kind == "u" else frozenset()
            event = Event(kind, key, lsn, self.draw.choice("ab") + number, (number,), phone, lacking)
        elif kind == "d":
            event = Event(kind, key, lsn, f"z{number}", phone=phone)
        partition = self.draw.randrange(count) if rules.by_source else key % count
        self.write(partition, event, later=phone is not None or (self.evolved and self.chance(30)))

    def write(self, partition: int, event: Event, *, later: bool) -> None:
        there = self.world.records[partition]
        self.log.append(f"  {partition}@{len(there)} {event}")
        self.events[partition, len(there)] = event
        there.append((self.writer.key(event, later=later), self.writer.value(event, later=later), 1_000))

    def evolve(self) -> None:
        """From now on, some events have a schema with another column and a wider key."""
        self.evolved = True
        self.did("evolve")

    def forget(self) -> BooleanExpression | None:
        if not self.table.rows:
            return None
        key = self.draw.choice(sorted(self.table.rows))
        del self.table.rows[key]
        return EqualTo("id", key)

    def row_of_others(self) -> dict[str, object]:
        return {"id": THEIRS, "notes": "theirs"}

    def takes_out_others(self, batch: dict[Place, Any]) -> bool:
        return any(each.kind == "t" for each in batch.values())

    def rows(self) -> list[tuple[int, str]]:
        """Return the key of each row, and its values as text."""
        view = self._view()
        known = () if view is None else tuple(column.name for column in view.columns)
        names = [each for each in ("kafka_key", "id", *COMPARED) if each in known]
        parts = () if view is None else self.world.lake.read(view, columns=names, equal={})
        found = [row for part in parts for row in part.to_pylist()]
        own = [row for row in found if row.get("id") != THEIRS]
        assert len(found) - len(own) == self.inserted, "rows of others"
        return sorted((_key_of(row), repr([row.get(name) for name in COMPARED])) for row in own)

    def expected(self) -> list[tuple[int, str]]:
        soft, masked = self.setting.rules.soft, self.setting.masked
        return sorted(
            (
                key,
                repr(
                    [
                        row.notes[:1] if masked and row.notes else row.notes,
                        None if row.tags is None else list(row.tags),
                        row.phone,
                        row.op,
                        row.deleted if soft else None,
                    ]
                ),
            )
            for key, row in self.table.rows.items()
        )


def _key_of(row: dict[str, Any]) -> int:
    key = row["kafka_key"]
    return int(json.loads(key)["id"] if isinstance(key, str) else key["id"])
