"""Maintenance of a table with all records: between batches, by a request, and against a running writer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from changelogs import Changelog
from values_of_tables import NOW, SPEC
from whole_batches import World, drained

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.orphans import Orphans, OrphanSearch
from frazil.maintain import rewriting
from frazil.materialize.clients import STEPS
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.maintenance.perform import perform
from frazil.materialize.maintenance.preview import preview
from frazil.materialize.maintenance.request import (
    MaintenanceRequest,
    MaintenanceResult,
    answer_to,
    ask,
    new_request,
    withdraw,
)
from frazil.materialize.outcome import Published
from frazil.materialize.run import TableRun
from frazil.model.errors import CatalogError
from frazil.model.ingested import DeletedRows
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import KeepSnapshots, TableSpec
from frazil.model.summary import is_rewrite
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import sampled

JSON = replace(SPEC, value="string", partition_by=())
ALWAYS = KeepSnapshots(count=1, daily=0)
ALL_MOMENTS = [(when, step) for step in STEPS for when in ("before", "after")]
MOMENTS = sampled(
    ALL_MOMENTS,
    keep=[("before", "ingest"), ("before", "publish"), ("after", "publish")].__contains__,
)
STAGED = sampled(
    [(when, step) for when, step in ALL_MOMENTS if step in STEPS[STEPS.index("publish") :]],
    keep=[("before", "publish"), ("after", "reveal")].__contains__,
)
"""From when on a branch holds every file of a batch."""


class KilledError(BaseException):
    """The process ends."""


def asked(*, compact: bool = True, expire: bool = False) -> MaintenanceRequest:
    return new_request(id="r1", by="ada", at=NOW, compact=compact, expire=expire)


class Orders:
    """A topic, its table of all records, and one process that writes it."""

    def __init__(self, folder: Path, spec: TableSpec = JSON, lake: IcebergLake | None = None) -> None:
        self.world = World(lake or IcebergLake(CatalogSettings("jdbc", str(folder))))
        self.spec = spec
        self.run: TableRun = self.world.table(spec)

    def batches(self, count: int) -> None:
        for _ in range(count):
            self.send(2)
            assert isinstance(self.batch(), Published)

    def send(self, count: int) -> None:
        self.world.values += [b"some text"] * count

    def batch(self) -> object:
        """Run one batch of the same process."""
        self.run.clients = replace(self.run.clients, topics=self.world.topics)
        return self.run.batch()

    @property
    def view(self) -> TableView:
        view = self.world.lake.load(self.spec.identifier)
        assert view is not None
        return view

    def rows_of_files(self) -> list[int]:
        return sorted(each.rows for each in self.world.lake.stored_files(self.view))

    def perform(self, request: MaintenanceRequest, spec: TableSpec | None = None) -> MaintenanceResult:
        """Perform a request as a process of its own."""
        clients = self.world.table(self.spec).clients
        keeping = Housekeeping(spec or self.spec, "maintenance")
        done = perform(keeping, clients, self.spec.identifier, request, seconds=60)
        clients.background.finish()
        return done

    def check(self) -> None:
        """The table has each record once, and says so."""
        drained(self.world, self.spec)
        offsets = [
            row["kafka_offset"]
            for batch in self.world.lake.read(self.view, columns=["kafka_offset"], equal={})
            for row in batch.to_pylist()
        ]
        assert sorted(offsets) == list(range(len(self.world.values)))
        side = KafkaSide(self.world.topics, cast(Any, self.world), self.world.registry)
        assert verify_table(self.world.lake, self.spec, kafka=side).findings == ()


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def rewrites(orders: Orders) -> int:
    return sum(is_rewrite(each) for each in orders.view.ancestry(orders.view.head))


def test_small_files_become_one_between_batches(orders: Orders, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        orders.batches(11)

    assert orders.rows_of_files() == [22]
    (done,) = [each for each in caplog.records if each.message == "files_rewritten"]
    assert (done.files, done.into, done.copied_rows) == (11, 1, 22)  # type: ignore[attr-defined]
    assert (done.rows_saved_by_a_scan, done.pays_after_scans) == (100_000, 1)  # type: ignore[attr-defined]
    orders.check()


def test_nothing_is_rewritten_while_the_next_batch_waits(orders: Orders) -> None:
    orders.spec = replace(orders.spec, trigger=replace(orders.spec.trigger, rows=3))
    orders.run = orders.world.table(orders.spec)
    orders.batches(12)

    assert orders.rows_of_files() == [2] * 12


def test_rewriting_can_be_switched_off(tmp_path: Path) -> None:
    orders = Orders(tmp_path, replace(JSON, maintain=replace(JSON.maintain, rewrite_deleted=1.0)))
    orders.batches(12)

    assert orders.rows_of_files() == [2] * 12


def test_a_driver_does_what_a_command_asks_for_before_its_next_batch(orders: Orders) -> None:
    orders.batches(3)
    ask(orders.world.lake, orders.spec.identifier, asked())
    orders.batches(1)

    done = answer_to(orders.world.lake, orders.spec.identifier, asked())
    assert done is not None
    assert (done.files, done.into, done.copied_rows, done.saved_rows, done.more) == (3, 1, 6, 20_000, False)
    assert orders.rows_of_files() == [2, 6]
    orders.check()


def test_a_request_is_performed_once(orders: Orders) -> None:
    orders.batches(2)
    ask(orders.world.lake, orders.spec.identifier, asked())
    orders.batches(3)

    assert rewrites(orders) == 1
    withdraw(orders.world.lake, orders.spec.identifier, asked())
    assert answer_to(orders.world.lake, orders.spec.identifier, asked()) is None


def test_a_request_that_fails_is_answered_and_stops_no_driver(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.batches(2)

    def broken(view: TableView) -> None:
        raise CatalogError("the storage is down", hint="wait")

    monkeypatch.setattr(orders.world.lake, "stored_files", broken)
    ask(orders.world.lake, orders.spec.identifier, asked())
    orders.batches(1)
    monkeypatch.undo()

    done = answer_to(orders.world.lake, orders.spec.identifier, asked())
    assert done is not None
    assert (done.error, done.hint) == ("the storage is down", "wait")
    orders.check()


def test_a_property_that_is_no_request_is_left_alone(orders: Orders) -> None:
    orders.batches(1)
    orders.world.lake.set_properties(orders.spec.identifier, put={"frazil.maintenance-request.x": "{"})

    orders.batches(1)
    orders.check()


def test_a_command_alone_expires_snapshots_and_their_files(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.batches(4)
    keeping = replace(orders.spec, maintain=replace(orders.spec.maintain, keep_snapshots=ALWAYS))
    before = len(orders.view.snapshots)

    done = orders.perform(asked(expire=True), keeping)

    assert (done.files, done.into) == (4, 1)
    left = len(orders.view.snapshots)
    assert left < before
    assert done.expired_snapshots >= before + 1 - left > 0
    orders.check()


def test_a_clock_that_is_ahead_lets_a_command_expire_nothing_that_is_young(tmp_path: Path) -> None:
    orders, ahead = Orders(tmp_path), timedelta(days=30)
    orders.batches(4)
    before = set(orders.view.snapshots)
    later = int((datetime.now(UTC) + ahead).timestamp() * 1000)
    orders.world.lake = IcebergLake(orders.world.lake._settings, now_ms=lambda: later)
    clients = replace(orders.world.table(orders.spec).clients, now=lambda: datetime.now(UTC) + ahead)
    keeping = Housekeeping(orders.spec, "maintenance")

    done = perform(keeping, clients, orders.spec.identifier, asked(expire=True), seconds=60)

    assert (done.into, done.expired_snapshots) == (1, 0)
    assert before < set(orders.view.snapshots)


def test_a_preview_says_what_is_done_and_changes_nothing(orders: Orders) -> None:
    orders.batches(4)
    before = orders.view.head
    plan = preview(orders.run.clients, orders.spec, compact=True, expire=True)

    assert orders.view.head == before
    done = orders.perform(asked(expire=True))
    assert (plan.files, plan.into, plan.copied_rows, plan.saved_rows, plan.expired_snapshots) == (
        done.files,
        done.into,
        done.copied_rows,
        done.saved_rows,
        done.expired_snapshots,
    )
    assert list(plan.lines()) == [
        "lake.orders:",
        "  4 files would become 1",
        "  8 rows copied; each scan of these files saves the time of 30,000 rows, which pays after 1 scan",
    ]


@pytest.mark.parametrize(("when", "step"), MOMENTS)
def test_maintenance_at_any_step_of_a_batch_neither_loses_nor_doubles_a_row(
    tmp_path: Path, when: str, step: str
) -> None:
    orders = Orders(tmp_path)
    orders.batches(2)
    done: list[MaintenanceResult] = []

    def observe(at: str, name: str) -> None:
        if (at, name) == (when, step) and not done:
            done.append(MaintenanceResult())
            done.append(orders.perform(asked(expire=True)))

    orders.run.clients = replace(orders.run.clients, observe=observe)
    orders.send(2)
    orders.batch()
    orders.run.clients = replace(orders.run.clients, observe=lambda when, step: None)

    assert done[1].files >= 2
    assert done[1].error is None
    orders.check()


@pytest.mark.parametrize(("when", "step"), MOMENTS)
def test_maintenance_after_a_writer_died_at_any_step_leaves_a_batch_that_is_whole_or_not_there(
    tmp_path: Path, when: str, step: str
) -> None:
    orders = Orders(tmp_path)
    orders.batches(2)

    def observe(at: str, name: str) -> None:
        if (at, name) == (when, step):
            raise KilledError

    orders.run.clients = replace(orders.run.clients, observe=observe)
    orders.send(2)
    with pytest.raises(KilledError):
        orders.batch()

    assert orders.perform(asked(expire=True)).files >= 2
    orders.check()


@pytest.mark.parametrize(("when", "step"), STAGED)
def test_no_file_of_a_staged_batch_is_an_orphan_whatever_its_age(tmp_path: Path, when: str, step: str) -> None:
    orders = Orders(tmp_path, replace(JSON, on_tombstone="dead_letter"))
    orders.batches(2)
    search = OrphanSearch(orders.world.lake, older_than=timedelta(0))
    found: list[Orphans] = []

    def observe(at: str, name: str) -> None:
        if (at, name) == (when, step):
            for table in (orders.spec.identifier, orders.spec.dead_letters_identifier):
                orphans = search.find(table, now=datetime.now(UTC) + timedelta(hours=1))
                assert orphans is not None
                found.append(orphans)
                search.delete(orphans)

    orders.run.clients = replace(orders.run.clients, observe=observe)
    orders.send(2)
    orders.world.values.append(None)  # type: ignore[arg-type]
    assert isinstance(orders.batch(), Published)

    assert [each.files for each in found] == [(), ()]
    assert orders.rows_of_files() == [2, 2, 2]
    assert verify_table(orders.world.lake, orders.spec).findings == ()


@pytest.mark.parametrize("lost", [False, True])
def test_a_process_that_dies_around_its_commit_leaves_the_table_whole(tmp_path: Path, lost: bool) -> None:
    def around(name: str, commit: Commit) -> object:
        if name == "rows rewrite":
            if lost:
                commit()
            raise KilledError
        return commit()

    orders = Orders(tmp_path, lake=WatchedLake(CatalogSettings("jdbc", str(tmp_path)), around=around))
    orders.batches(3)
    with pytest.raises(KilledError):
        orders.perform(asked())

    assert rewrites(orders) == int(lost)
    orders.batches(2)
    orders.check()


def test_a_rewrite_that_a_batch_overtakes_begins_again(tmp_path: Path) -> None:
    overtaking: list[Callable[[], None]] = []

    def around(name: str, commit: Commit) -> object:
        if name == "rows rewrite" and overtaking:
            overtaking.pop()()
        return commit()

    orders = Orders(tmp_path, lake=WatchedLake(CatalogSettings("jdbc", str(tmp_path)), around=around))
    orders.batches(3)
    overtaking.append(lambda: orders.batches(1))

    done = orders.perform(asked())

    assert (done.files, done.copied_rows) == (4, 8)
    assert orders.rows_of_files() == [8]
    orders.check()


def test_a_rewrite_that_batches_overtake_every_time_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def around(name: str, commit: Commit) -> object:
        if name == "rows rewrite":
            orders.batches(1)
        return commit()

    orders = Orders(tmp_path, lake=WatchedLake(CatalogSettings("jdbc", str(tmp_path)), around=around))
    orders.batches(3)

    done = orders.perform(asked())

    assert (done.files, done.more) == (0, True)
    assert "rewrite_given_up" in caplog.messages
    orders.check()


def test_a_request_is_stored_as_it_was_asked() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    request = new_request(id="r1", by="ada", at=at, compact=True, expire=False)

    assert request.as_property() == {
        "frazil.maintenance-request.r1": '{"by": "ada", "at": "2026-01-31T12:00:00Z", "compact": true, "expire": false}'
    }


def test_rows_that_others_deleted_stay_deleted_in_a_merged_file(orders: Orders) -> None:
    orders.batches(3)
    file = orders.world.lake.stored_files(orders.view)[0]
    lake, view = orders.world.lake, orders.view
    assert view.head is not None
    lake.stage(view, base=view.head, branch="theirs", files=(), summary={}, deletes=[DeletedRows(file.path, [1])])
    lake.publish(orders.view, branch="theirs", tag="theirs", drop=["theirs"])

    done = orders.perform(asked())

    assert (done.files, done.copied_rows, done.deleted_rows) == (3, 5, 1)
    assert orders.rows_of_files() == [5]
    orders.batches(1)
    verification = verify_table(orders.world.lake, orders.spec)
    assert verification.clean
    assert verification.foreign.rows_removed == 1


def test_a_table_that_follows_keys_is_compacted_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changelog = Changelog.at(tmp_path)
    for key in "abc":
        changelog.send((key, 1))
        changelog.catch_up()
    changelog.send(("a", 2))
    changelog.catch_up()
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    clients, table = changelog.world.table(changelog.spec).clients, changelog.spec.identifier
    plan = preview(clients, changelog.spec, compact=True, expire=False)

    done = perform(Housekeeping(changelog.spec, "maintenance"), clients, table, asked(), seconds=60)

    assert (done.copied_rows, done.into, done.more) == (3, 1, False)
    assert plan.copied_rows == 3
    assert [file.rows for file in changelog.files()] == [3]
    changelog.check()
