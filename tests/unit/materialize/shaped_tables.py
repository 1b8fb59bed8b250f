"""A topic of two partitions whose records become a log, the present state and the history, and a model of all three."""

from __future__ import annotations

import json
import shutil
import uuid
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from changelogs import UPSERT
from grouped_tables import _saved
from ordered_changelogs import Order, Partitions, milliseconds

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.outcome import Outcome
from frazil.materialize.run import TableRun
from frazil.materialize.state import Standing, standing
from frazil.model.plan import NothingToDo
from frazil.model.routes import Group, Route
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, TableSpec, Trigger
from frazil.ports import Lake
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from frazil.verify.ranges import with_chains

TABLES = ("log", "now", "history")
GROUP = Group("lake", "customers", tuple(map(Route, TABLES)))
Sent = tuple[str | None, int | str | None, int, int]
"""A key, a value, a timestamp in milliseconds, and a partition; a text is no JSON."""


def specs(**changes: Any) -> tuple[TableSpec, ...]:
    """The tables of the shapes, the log first."""
    trigger = Trigger(UPSERT.trigger.every, rows=4, bytes=10**6)
    given: dict[str, Any] = {"group": GROUP, "bad_record_limit": BadRecordLimit.off(), "trigger": trigger, **changes}
    log, now, history = (replace(UPSERT, table=table, **given) for table in TABLES)
    by_time = {"order_by": "kafka_timestamp"}
    return (
        replace(log, write="append", on_tombstone="row"),
        replace(now, **by_time),
        replace(history, write="history", **by_time),
    )


@dataclass
class Shapes:
    """What was sent, by key and in all: each record with what orders it, and whether it has a value."""

    world: Partitions
    tables: tuple[TableSpec, ...] = field(default_factory=specs)
    by_key: dict[str, list[tuple[Order, bool]]] = field(default_factory=dict)
    refused: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def at(cls, folder: Path) -> Shapes:
        return cls(Partitions(IcebergLake(CatalogSettings("jdbc", str(folder)))))

    def send(self, *records: Sent) -> None:
        for key, value, stamp, partition in records:
            there = self.world.records[partition]
            place = (partition, len(there))
            text = value if isinstance(value, str) or value is None else json.dumps({"n": value})
            there.append((None if key is None else key.encode(), None if text is None else text.encode(), stamp))
            if key is None or isinstance(value, str):
                self.refused.append(place)
            else:
                self.by_key.setdefault(key, []).append(((stamp, *place), value is not None))

    def driver(self, *, lake: Lake | None = None, tables: tuple[TableSpec, ...] | None = None) -> TableRun:
        """A new process."""
        first, *others = tables or self.tables
        run = replace(self.world.table(first), writer=uuid.uuid4().hex[:8], others=tuple(others))
        run.clients = replace(run.clients, lake=lake or self.world.lake, new_id=lambda: uuid.uuid4().hex[:8])
        return run

    def catch_up(self, run: TableRun | None = None) -> list[Outcome]:
        run, outcomes = run or self.driver(), list[Outcome]()
        for _ in range(40):
            outcomes.append(run.batch())
            if isinstance(outcomes[-1], NothingToDo):
                return outcomes
        raise AssertionError("the topic does not end")

    def stands(self, table: str) -> Standing:
        view = self.world.lake.load(f"lake.{table}")
        assert view is not None
        return standing(view, pipeline=self.tables[0].pipeline)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.world.lake.read(self.stands(table).view, columns=list(columns), equal={})
        return sorted(tuple(row[name] for name in columns) for part in found for row in part.to_pylist())

    def verified(self) -> tuple[Verification, ...]:
        return with_chains(self.world.lake, self.tables, verify_together(self.world.lake, self.tables))

    def against_kafka(self) -> tuple[Verification, ...]:
        side = KafkaSide(self.world.topics, cast(Any, self.world), self.world.registry)
        return verify_together(self.world.lake, self.tables, kafka=side)

    def check(self) -> None:
        """Check that each table is what the model says, and proves it."""
        records = [order for each in self.by_key.values() for order, _ in each]
        source = ("kafka_partition", "kafka_offset")
        assert self.rows("log", *source) == sorted(order[1:] for order in records)
        newest = [max(each) for each in self.by_key.values()]
        assert self.rows("now", *source) == sorted(order[1:] for order, has_value in newest if has_value)
        assert self._history() == sorted(self._versions())
        letters = list_dead_letters(self.world.lake, self.tables[0], limit=99).newest
        assert sorted((each.partition, each.offset) for each in letters) == sorted(self.refused)
        assert [str(finding) for each in self.verified() for finding in each.findings] == []
        assert len({self.stands(table).state.itself for table in TABLES}) == 1

    def _history(self) -> list[tuple[Order, int]]:
        columns = ("kafka_timestamp", "kafka_partition", "kafka_offset", "valid_to")
        rows = self.rows_unsorted("history", *columns)
        return sorted(
            ((milliseconds(time), *place), -1 if end is None else milliseconds(end)) for time, *place, end in rows
        )

    def rows_unsorted(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.world.lake.read(self.stands(table).view, columns=list(columns), equal={})
        return [tuple(row[name] for name in columns) for part in found for row in part.to_pylist()]

    def _versions(self) -> list[tuple[Order, int]]:
        versions = []
        for records in self.by_key.values():
            in_order = sorted(records)
            ends = [*(order[0] for order, _ in in_order[1:]), -1]
            versions += [(order, end) for (order, has), end in zip(in_order, ends, strict=True) if has]
        return versions


@dataclass(frozen=True)
class SavedShapes:
    """Shapes whose first batches many tests begin with: they run once, and each test gets its own state of files."""

    shapes: Shapes

    @classmethod
    def of(cls, shapes: Shapes) -> SavedShapes:
        warehouse = Path(shapes.world.lake._settings.warehouse)
        shutil.copytree(warehouse, _saved(warehouse))
        return cls(shapes)

    def restored(self) -> Shapes:
        """Return the shapes as they were saved, in a new process. Tables have absolute paths, so it is at the same."""
        lake = self.shapes.world.lake
        warehouse = Path(lake._settings.warehouse)
        shutil.rmtree(warehouse)
        shutil.copytree(_saved(warehouse), warehouse)
        return deepcopy(self.shapes, {id(lake): IcebergLake(lake._settings)})
