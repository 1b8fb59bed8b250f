"""Shapes that are rebuilt: their specs, a process that does it, and one that dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changelogs import NAMES
from rebuilt_tables import KilledError
from shaped_tables import TABLES, Shapes
from test_shapes import LATE, SOME

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.rebuild.perform import Rebuild
from frazil.model.snapshot import REBUILD_PREFIX, TableView
from frazil.model.spec import TableSpec
from frazil.status import TableStatus, table_statuses


def rebuilding(shapes: Shapes, *, tables: Sequence[TableSpec] | None = None, **more: Any) -> Rebuild:
    """A new process, for the present specs of the shapes."""
    first, *others = tables or shapes.tables
    run = shapes.driver(tables=(first, *others))
    shapes.world.lake.catalog  # noqa: B018 - the other lake shares it once it is open
    built = RebuildLake(shapes.world.lake, (first.dead_letters_identifier, *(each.identifier for each in run.tables)))
    given = {"wait": lambda seconds: None, "clock": lambda: 0.0, "report": lambda progress: None, **more}
    return Rebuild(first, run.clients, built, f"r{next(NAMES)}", others=others, **given)


def otherwise(shapes: Shapes) -> tuple[TableSpec, ...]:
    """The same tables, with each other's write modes."""
    log, now, history = shapes.tables
    return log, replace(now, write="history"), replace(history, write="upsert")


def generations(shapes: Shapes) -> list[int]:
    return [shapes.stands(table).state.generation for table in TABLES]


def check_rebuilt(shapes: Shapes, generation: int = 1) -> None:
    """All tables are rebuilt, are what the model says, and are proven; nothing is left of the rebuild."""
    assert generations(shapes) == [generation] * 3
    shapes.check()
    assert [str(finding) for each in shapes.against_kafka() for finding in each.findings] == []
    assert len({f"frazil_epoch_{shapes.stands(t).state.epoch}" in shapes.stands(t).view.tags for t in TABLES}) == 1
    for table in TABLES:
        view = shapes.stands(table).view
        assert not [name for name in (*view.branches, *view.tags) if name.startswith(REBUILD_PREFIX)]
        assert not [name for name in view.properties if name.startswith("frazil.rebuild")]


def rebuild_dies_at(shapes: Shapes, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is replaced, and the process dies before this table is."""
    take = IcebergLake.take_rebuilt

    def taking(lake: IcebergLake, view: TableView, **more: Any) -> None:
        if view.identifier == f"lake.{table}":
            raise KilledError
        take(lake, view, **more)

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(IcebergLake, "take_rebuilt", taking)
        rebuilding(shapes).perform()
    at = TABLES.index(table)
    assert generations(shapes) == [1] * at + [0] * (3 - at)


def statuses(shapes: Shapes) -> list[TableStatus]:
    clients = shapes.driver().clients
    return list(
        table_statuses(clients.lake, clients.topics, shapes.tables, delta_logs=clients.delta_logs, now=clients.now())
    )


def made_otherwise(folder: Path) -> Shapes:
    """Tables with records in two batches, whose spec has been changed since."""
    made = Shapes.at(folder)
    for batch in (SOME, LATE):
        made.send(*batch)
        made.catch_up(made.driver(tables=otherwise(made)))
    return made


class TopicsNow:
    """The topics of a world as they are when they are asked for (`ports.Topics`)."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shapes.world.topics, name)
