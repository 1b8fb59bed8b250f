"""When Snowflake refreshes from a Delta log, and the outcome of the batch if it does not answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from values_of_tables import NOW, spec, topic

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.clients import Clients
from frazil.materialize.readers.snowflake import REST
from frazil.materialize.run import TableRun
from frazil.model.errors import CatalogError, SnowflakeError
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.snowflake import Served
from frazil.model.spec import TableSpec
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

BOTH = spec(formats=("iceberg", "delta"), readers=("snowflake", "duckdb"))


@dataclass
class Account:
    """`before` may raise."""

    refreshed: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def refresh(self, table: str) -> None:
        self.before()
        self.refreshed.append(table)

    def refreshed_at(self, table: str) -> datetime | None:
        raise NotImplementedError

    def served(self, table: str) -> Served:
        raise NotImplementedError


@dataclass
class World:
    """A table whose topic has nothing new, its Delta log, and the clients that are notified."""

    lake: IcebergLake
    clients: Clients
    logs: DeltaLogsInMemory
    account: Account
    now: datetime = NOW

    def run(self, wanted: TableSpec = BOTH) -> TableRun:
        return TableRun(wanted, self.clients, writer="w")

    def insert(self) -> None:
        self.lake.catalog.load_table(BOTH.identifier).append(pa.table({"n": [1]}, schema=pa.schema([("n", "int64")])))


@pytest.fixture
def world(tmp_path: Path) -> World:
    registry = RegistryInMemory()
    registry.register("orders-value", record(a_field("n")))
    lake, logs, account = IcebergLake(CatalogSettings("jdbc", str(tmp_path))), DeltaLogsInMemory(), Account()
    clients = Clients(
        lake=lake,
        topics=TopicsInMemory({"orders": topic({0: (9, 9)})}),
        registry=registry,
        runner=cast(Any, None),
        kafka={},
        registry_settings=RegistrySettings("http://127.0.0.1:1"),
        now=lambda: made.now,
        new_id=lambda: "id",
        on_receipt=lambda receipt: None,
        observe=lambda when, step: None,
        delta_logs=lambda: logs,
        snowflake=account,
    )
    made = World(lake, clients, logs, account)
    return made


def down() -> None:
    raise SnowflakeError("Snowflake refused the login of LOADER: 250001", hint="wait")


def test_each_version_of_the_log_is_told_of_once(world: World) -> None:
    run = world.run()
    for _ in range(2):
        run.batch()
    assert world.account.refreshed == ["ORDERS__DELTA"]

    world.insert()
    for _ in range(2):
        run.batch()

    assert world.account.refreshed == ["ORDERS__DELTA"] * 2


def test_a_new_process_tells_once_though_the_log_is_current(world: World) -> None:
    world.account.before = down
    world.run().batch()

    world.account.before = lambda: None
    world.run().batch()

    assert world.account.refreshed == ["ORDERS__DELTA"]


def test_a_failure_fails_no_batch_and_is_made_good_by_a_later_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.account.before = down
    run = world.run()
    with caplog.at_level(logging.WARNING):
        assert isinstance(run.batch(), NothingToDo)
    (told,) = [each for each in caplog.records if each.getMessage() == "snowflake_not_refreshed"]
    assert (told.__dict__["as"], told.__dict__["hint"]) == ("ORDERS__DELTA", "wait")

    world.account.before = lambda: None
    run.batch()
    assert world.account.refreshed == [], "an account that does not answer holds up one batch a minute"
    world.now += REST
    run.batch()

    assert world.account.refreshed == ["ORDERS__DELTA"]


def test_what_nobody_foresaw_fails_no_batch_either(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def stumble() -> None:
        raise ZeroDivisionError

    world.account.before = stumble

    assert isinstance(world.run().batch(), NothingToDo)
    assert {"unforeseen", "snowflake_not_refreshed"} <= {each.getMessage() for each in caplog.records}


def test_a_log_that_could_not_be_written_is_not_told_of(world: World) -> None:
    def full() -> None:
        raise CatalogError("the storage is down", hint="wait for it")

    world.logs.before_write = full
    world.run().batch()

    assert world.account.refreshed == []


def test_making_a_table_tells_nobody_since_snowflake_attaches_to_it_later(world: World) -> None:
    world.run().create()

    assert world.account.refreshed == []


@pytest.mark.parametrize(
    "wanted", [spec(formats=("iceberg", "delta"), readers=("duckdb",)), spec(readers=("snowflake",))]
)
def test_only_tables_that_snowflake_reads_by_a_delta_log_are_told_of(world: World, wanted: TableSpec) -> None:
    world.run(wanted).batch()

    assert world.account.refreshed == []


def test_without_a_loader_nobody_is_told(world: World) -> None:
    world.clients = replace(world.clients, snowflake=None)

    assert isinstance(world.run().batch(), NothingToDo)
