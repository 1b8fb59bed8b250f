"""Old rows go in whole partitions of time, and the state and the proof know of them."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.types import LongType
from values_of_tables import NOW, spec
from whole_batches import LONG, World, framed

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.delta.standing import log_standing
from frazil.materialize import row_retention
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.row_retention import start_of
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.partitioning import partition_field
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, KeepSnapshots, Maintain, TableSpec
from frazil.ports import Lake
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.watched_lake import Commit, WatchedLake

KEPT = timedelta(days=10)
DAILY = spec(partition_by=("day(kafka_timestamp)",), maintain=Maintain(512 << 20, KeepSnapshots(), retain_rows=KEPT))


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time of the storage, which is late enough for any clock unless a test says otherwise."""
    told = [NOW + timedelta(days=1000)]
    monkeypatch.setattr(IcebergLake, "storage_time", lambda self, view: told[0])
    return told


class DiedError(BaseException):
    """The driver is gone."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic with a record of each of the last 15 days, at noon, and one that is no record."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    for day in range(15):
        send(made, NOW - timedelta(days=14 - day))
    made.values.append(b"bad")
    yield made


def in_json(**other: Any) -> TableSpec:
    fields = json.dumps({"n": "long", "on": "date", "at": "timestamptz"})
    return replace(DAILY, value="json", value_settings=replace(DAILY.value_settings, fields=fields), **other)


def send(world: World, at: datetime) -> None:
    world.times[len(world.values)] = int(at.timestamp() * 1000)
    world.values.append(framed(1, LONG, {"n": len(world.values)}))


def driver(world: World, wanted: TableSpec = DAILY, *, lake: Lake | None = None, days: float = 0) -> TableRun:
    """A new process, some days after NOW."""
    run = replace(world.table(wanted), writer=uuid.uuid4().hex[:8])
    now = NOW + timedelta(days=days)
    run.clients = replace(
        run.clients,
        lake=lake or world.lake,
        now=lambda: now,
        new_id=lambda: uuid.uuid4().hex,
        observe=lambda w, s: None,
    )
    return run


def view_of(world: World, wanted: TableSpec = DAILY) -> TableView:
    view = world.lake.load(wanted.identifier)
    assert view is not None
    return view


def offsets(world: World, wanted: TableSpec = DAILY) -> list[int]:
    scan = world.lake.catalog.load_table(wanted.identifier).scan(selected_fields=("kafka_offset",))
    return sorted(scan.to_arrow()["kafka_offset"].to_pylist())


def verified(world: World, wanted: TableSpec = DAILY) -> Verification:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return verify_table(world.lake, wanted, kafka=kafka)


def forgotten(world: World, wanted: TableSpec = DAILY) -> int:
    state = standing(view_of(world, wanted), pipeline=wanted.pipeline).state
    return state.sources[0].partitions[0].forgotten


def test_partitions_that_are_too_old_go_and_the_proof_stays_clean(world: World) -> None:
    assert isinstance(driver(world).batch(), Published)

    assert offsets(world) == list(range(4, 15))
    assert forgotten(world) == 4
    found = verified(world)
    assert found.findings == ()
    assert any("4 rows were taken out by `frazil forget` or `retain_rows`" in note for note in found.notes)


def test_a_driver_goes_on_and_looks_again_after_an_hour(world: World) -> None:
    clock = [0.0]
    run = driver(world, days=1)
    (table,) = run.tables
    table.housekeeping.retention.clock = lambda: clock[0]
    run.batch()
    send(world, NOW + timedelta(days=3))
    run.clients = replace(run.clients, topics=world.topics, now=lambda: NOW + timedelta(days=3))
    run.batch()
    soon = offsets(world)
    clock[0] = row_retention.LOOK_SECONDS
    outcome = run.batch()

    assert soon == [*range(5, 15), 16]
    assert isinstance(outcome, NothingToDo)
    assert offsets(world) == [*range(7, 15), 16]
    assert verified(world).findings == ()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_dies_at_the_commit_leaves_it_to_the_next_one(world: World, moment: str) -> None:
    publishes = 0

    def around(name: str, commit: Commit) -> object:
        nonlocal publishes
        publishes += name == "rows publish"
        if publishes < 2:
            return commit()
        if moment == "after":
            commit()
        raise DiedError

    with pytest.raises(DiedError):
        driver(world, lake=WatchedLake(world.lake._settings, around=around)).batch()
    send(world, NOW)
    driver(world).batch()

    assert offsets(world) == [*range(4, 15), 16]
    assert forgotten(world) == 4
    assert verified(world).findings == ()


def test_rows_stay_as_long_as_their_file_has_a_younger_one(world: World) -> None:
    """Files from before a change of `partition_by` go as late as their youngest row, and keep no others."""
    monthly = replace(DAILY, partition_by=("month(kafka_timestamp)",))
    driver(world, monthly, days=-30).batch()
    for day in range(17):
        send(world, NOW - timedelta(days=16 - day))
    driver(world).batch()
    at_first = offsets(world)
    driver(world, days=10).batch()

    assert at_first == [*range(15), *range(22, 33)]
    assert offsets(world) == [14, 32]
    assert verified(world).findings == ()


@pytest.mark.parametrize(("ahead", "left"), [(0, range(4, 15)), (4000, range(4, 15)), (-2, range(2, 15))])
def test_a_clock_that_is_ahead_of_the_storage_takes_out_no_row_that_is_young(
    world: World, storage: list[datetime], ahead: int, left: range
) -> None:
    storage[0] = NOW
    driver(world, days=ahead).batch()
    send(world, NOW)
    driver(world, days=ahead).batch()

    assert offsets(world) == [*left, 16]


def test_rows_without_a_time_stay_and_others_go(world: World) -> None:
    wanted = in_json(partition_by=("day(at)",))
    world.times.clear()
    days = [(NOW - timedelta(days=each)).isoformat() for each in (14, 13, 3)]
    world.values = [json.dumps({"n": n, "at": at}).encode() for n, at in enumerate([*days, None])]
    for _ in range(2):
        driver(world, wanted).batch()
        world.values.append(json.dumps({"n": 9, "at": None}).encode())

    assert offsets(world, wanted) == [2, 3, 4]
    assert verified(world, wanted).findings == ()


def test_rows_that_others_added_and_deleted_in_old_partitions_go_with_them(world: World) -> None:
    driver(world, days=-30).batch()
    table = world.lake.catalog.load_table(DAILY.identifier)
    table.delete("kafka_offset == 1")
    old = {"n": 77, "kafka_timestamp": NOW - timedelta(days=13)}
    table.append(pa.Table.from_pylist([old], schema=table.schema().as_arrow()))
    for _ in range(2):
        send(world, NOW)
        driver(world).batch()

    assert offsets(world) == [*range(4, 15), 16, 17]
    assert forgotten(world) == 3
    assert verified(world).findings == ()


@pytest.mark.parametrize(
    "tag",
    ["frazil_transform_lake.totals", "frazil_joined_lake.totals_1", "frazil_export_monthly_2026-01_0_1f2e3d4c"],
)
def test_rows_that_others_need_stay(world: World, tag: str, caplog: pytest.LogCaptureFixture) -> None:
    driver(world, days=-30).batch()
    view = view_of(world)
    assert view.head is not None
    world.lake.move_tags(view, put={tag: view.head})
    with caplog.at_level(logging.WARNING):
        driver(world).batch()

    assert offsets(world) == list(range(15))
    assert "rows_not_expired" in caplog.messages


def test_rows_that_were_dead_letters_go_as_others_do(world: World) -> None:
    wanted = replace(DAILY, bad_record_limit=BadRecordLimit.off())
    wider = record(a_field("n"), a_field("channel", ["null", "string"]))
    world.times[len(world.values)] = int((NOW - timedelta(days=12)).timestamp() * 1000)
    world.values.append(framed(2, wider, {"n": 1, "channel": "web"}))
    driver(world, wanted, days=-30).batch()
    world.registry.register("other-value", wider)
    world.registry.missing.clear()
    result = driver(world, wanted, days=-30).replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z"))
    driver(world, wanted).batch()

    assert result.replayed == 1
    assert offsets(world) == list(range(4, 15))
    assert verified(world, wanted).findings == ()


def test_rows_whose_offsets_another_tool_has_hidden_stay(world: World, caplog: pytest.LogCaptureFixture) -> None:
    driver(world, days=-30).batch()
    table = world.lake.catalog.load_table(DAILY.identifier)
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("kafka_offset")
    with table.update_schema() as schema:
        schema.add_column("kafka_offset", LongType())
    with caplog.at_level(logging.WARNING):
        driver(world).batch()

    assert "rows_not_expired" in caplog.messages
    assert world.lake.catalog.load_table(DAILY.identifier).scan().to_arrow().num_rows == 15


def test_a_delta_log_follows(world: World) -> None:
    wanted = replace(DAILY, formats=("iceberg", "delta"))
    logs = DeltaRsLogs(world.lake.storage)
    world.delta_logs = lambda: logs
    driver(world, wanted).batch()

    in_delta = DeltaTable(view_of(world, wanted).location.removeprefix("file://")).to_pyarrow_table()
    assert sorted(in_delta["kafka_offset"].to_pylist()) == list(range(4, 15))
    assert log_standing(view_of(world, wanted), logs).state == "current"


def test_a_deduplicated_table_forgets_the_identities_of_old_rows(world: World) -> None:
    wanted = replace(DAILY, write="deduplicate", identity=("n",), on_tombstone="dead_letter")
    driver(world, wanted).batch()
    world.times[16], world.times[17] = (int(NOW.timestamp() * 1000) for _ in range(2))
    world.values += [framed(1, LONG, {"n": 0}), framed(1, LONG, {"n": 14})]
    driver(world, wanted).batch()

    assert offsets(world, wanted) == [*range(4, 15), 16]
    assert verified(world, wanted).findings == ()


def test_rows_without_a_timestamp_in_partition_by_have_no_age(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A date is compared in days, and would make every row look old."""
    wanted = in_json()
    world.values = [b'{"n": 1, "on": "2001-01-01"}']
    driver(world, replace(wanted, partition_by=("day(on)",), maintain=Maintain(512 << 20))).batch()
    with caplog.at_level(logging.WARNING):
        driver(world, replace(wanted, partition_by=("day(on)",))).batch()

    assert offsets(world, wanted) == [0]
    assert "rows_not_expired" in caplog.messages


@pytest.mark.parametrize(
    ("field", "begins"),
    [
        ("hour(at)", datetime(2026, 3, 17, 13, tzinfo=UTC)),
        ("day(at)", datetime(2026, 3, 17, tzinfo=UTC)),
        ("month(at)", datetime(2026, 3, 1, tzinfo=UTC)),
        ("year(at)", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_partition_of_a_time_begins(field: str, begins: datetime) -> None:
    assert start_of(partition_field(field), datetime(2026, 3, 17, 13, 14, 15, 16, tzinfo=UTC)) == begins
