"""When a run looks at the Delta log of its table, and what becomes of the batch when that goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from values_of_tables import NOW, spec, topic

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import Clients
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, pause_property
from frazil.materialize.readers.delta import CHECK_EVERY
from frazil.materialize.run import TableRun
from frazil.model.delta import DELTA_TAG, NEXT_DELTA_TAG, DeltaLog, LoggedFile
from frazil.model.errors import CatalogError, PausedError
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.snapshot import TableView
from frazil.ports import DeltaLogs
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

BOTH = spec(formats=("iceberg", "delta"))


@dataclass
class World:
    """A table whose topic holds nothing new, and the log beside it. `opened` counts how often the logs were opened."""

    lake: IcebergLake
    clients: Clients
    logs: DeltaLogsInMemory
    opened: list[str] = field(default_factory=list)

    def run(self, wanted: Any = BOTH) -> TableRun:
        return TableRun(wanted, self.clients, writer="w")

    @property
    def view(self) -> TableView:
        view = self.lake.load(BOTH.identifier)
        assert view is not None
        return view

    @property
    def log(self) -> DeltaLog | None:
        return self.logs.read(self.view.location)

    def insert(self) -> None:
        """A user's INSERT: the head moves on."""
        self.lake.catalog.load_table(BOTH.identifier).append(pa.table({"n": [1]}, schema=pa.schema([("n", "int64")])))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    registry = RegistryInMemory()
    registry.register("orders-value", record(a_field("n")))
    lake, logs = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))), DeltaLogsInMemory()

    def opened() -> DeltaLogs:
        made.opened.append("delta")
        return logs

    clients = Clients(
        lake=lake,
        topics=TopicsInMemory({"orders": topic({0: (9, 9)})}),
        registry=registry,
        runner=cast(Any, None),
        kafka={},
        registry_settings=RegistrySettings("http://127.0.0.1:1"),
        now=lambda: NOW,
        new_id=lambda: "id",
        on_receipt=lambda receipt: None,
        observe=lambda when, step: None,
        delta_logs=opened,
    )
    made = World(lake, clients, logs)
    yield made


def test_a_new_table_has_its_log_from_the_start(world: World) -> None:
    world.run().create()

    assert world.log is not None
    assert (world.log.version, world.log.snapshot_id) == (0, world.view.head)
    assert world.view.tags[DELTA_TAG] == world.view.head


def test_a_run_with_nothing_to_read_brings_the_log_to_the_head(world: World) -> None:
    world.run().create()
    world.insert()

    outcome = world.run().batch()

    assert isinstance(outcome, NothingToDo)
    assert world.log is not None
    assert (world.log.version, world.log.snapshot_id) == (1, world.view.head)


def test_a_paused_table_is_brought_to_its_head_as_well(world: World) -> None:
    world.run().create()
    world.insert()
    said = pause_property(by="ann", why="repairs", at=NOW)
    world.lake.set_properties(BOTH.identifier, put={PAUSED_PROPERTY: said})

    with pytest.raises(PausedError):
        world.run().batch()

    assert world.log is not None
    assert world.log.snapshot_id == world.view.head


def test_one_process_looks_once_at_a_head(world: World) -> None:
    run = world.run()

    for _ in range(3):
        run.batch()
    world.insert()
    run.batch()

    assert world.opened == ["delta"] * 2


def test_what_others_write_into_the_log_is_noticed_by_the_next_check(world: World) -> None:
    run = world.run()
    run.batch()
    before = world.log
    assert before is not None
    others = replace(before, version=1, files=(LoggedFile("data/theirs", 1),))
    world.logs.versions[world.view.location].append(others)

    run.batch()
    at_once = world.log
    world.clients = run.clients = replace(run.clients, now=lambda: NOW + CHECK_EVERY)
    run.batch()

    assert at_once == others, "a table that does not change is not looked at with each batch"
    assert world.log == replace(before, version=2)


def test_a_change_of_the_schema_alone_is_looked_at(world: World) -> None:
    run = world.run()
    run.batch()
    with world.lake.catalog.load_table(BOTH.identifier).update_schema() as update:
        update.rename_column("kafka_offset", "position")

    run.batch()

    assert world.opened == ["delta"] * 2


def test_a_failure_is_told_and_mended_by_the_next_batch(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def down() -> None:
        raise CatalogError("the storage is down", hint="wait for it")

    world.logs.before_write = down
    run = world.run()
    with caplog.at_level(logging.WARNING):
        assert isinstance(run.batch(), NothingToDo)
    world.logs.before_write = lambda: None
    run.batch()

    (told,) = [each for each in caplog.records if each.message == "delta_log_failed"]
    assert (told.__dict__["problem"], told.__dict__["hint"]) == ("the storage is down", "wait for it")
    assert world.log is not None


def test_a_table_without_delta_never_opens_the_door(world: World) -> None:
    run = world.run(spec())
    run.create()
    run.batch()

    assert world.opened == []
    assert world.logs.versions == {}


def test_the_tags_go_once_delta_is_no_format_of_the_table_any_more(world: World) -> None:
    world.run().create()
    world.lake.move_tags(world.view, put={NEXT_DELTA_TAG: world.view.head or 0})
    before = dict(world.view.tags)

    world.run(spec()).batch()

    assert {DELTA_TAG, NEXT_DELTA_TAG} < before.keys()
    assert world.view.tags.keys() == before.keys() - {DELTA_TAG, NEXT_DELTA_TAG}
    assert world.log is not None
