"""Expiry beside a Delta log: files that only the log needed go once its readers do not need them any more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.orphans import OrphanSearch
from frazil.delta.needed import files_needed
from frazil.maintain.background import Background
from frazil.maintain.expiring import Expiring
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.delta import LoggedFile
from frazil.model.spec import KeepSnapshots
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake

AGE = timedelta(days=1)
KEEP_2 = KeepSnapshots(count=2, daily=0, age=AGE)


@dataclass(slots=True)
class Expired:
    """A table with a Delta log, in one process that expires its snapshots, at a time `later` than now."""

    lake: SmallLake
    later: timedelta = timedelta(0)
    expiring: Expiring = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.expiring = Expiring(KEEP_2, CHECKPOINT_TAG, clock=self.seconds)
        self.expiring.look(self.lake.view, now=self.now - self.later)

    def seconds(self) -> float:
        return self.later.total_seconds()

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + self.later

    @property
    def folder(self) -> Path:
        return Path(self.lake.view.location.removeprefix("file://"))

    def logs(self) -> DeltaRsLogs:
        return DeltaRsLogs(self.lake.lake.storage)

    def batches(self, count: int) -> None:
        """Publish batches, with a version for each and for a compaction after it, and expire what may go."""
        for _ in range(count):
            start = max((p.next for s in self.lake.state.sources for n, p in s.partitions.items() if n == 0), default=0)
            self.lake.batch(Read("orders", 0, start, start + 5))
            announce_delta(self.lake.lake, self.logs, self.lake.view)
            self.lake.compact()
            announce_delta(self.lake.lake, self.logs, self.lake.view)
            self.expire()

    def expire(self) -> None:
        background = Background()
        self.expiring.between_batches(self.lake.lake, self.logs, self.lake.view, background, now=self.now)
        background.finish(60)

    def on_disk(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in (self.folder / "data").rglob("*.parquet")}

    def in_iceberg(self) -> set[str]:
        table = self.lake.table
        manifests = [each for snapshot in table.snapshots() for each in snapshot.manifests(table.io)]
        entries = [entry for each in manifests for entry in each.fetch_manifest_entry(table.io)]
        return {entry.data_file.file_path.removeprefix(f"{self.lake.view.location}/") for entry in entries}

    def unneeded(self) -> set[str]:
        """Return the files that neither a retained snapshot nor a Delta version of the time for travel has."""
        in_delta = files_needed(self.logs(), self.lake.view.location, since=self.now - AGE)
        return self.on_disk() - self.in_iceberg() - in_delta

    def files_of_newest(self) -> Sequence[LoggedFile]:
        log = self.logs().read(self.lake.view.location)
        return () if log is None else log.files

    def rows_of(self, versions: Sequence[int]) -> list[int]:
        return [DeltaTable(str(self.folder), version=each).to_pyarrow_table().num_rows for each in versions]


def test_files_that_only_the_delta_log_needed_go_with_a_later_expiry(lake: SmallLake) -> None:
    table = Expired(lake)
    table.batches(6)
    newest = DeltaTable(str(table.folder)).version()
    within_its_time = table.rows_of(range(newest + 1))
    left = table.on_disk() - table.in_iceberg()

    table.later = timedelta(days=2)
    table.batches(1)
    younger = left & table.on_disk()
    table.later = timedelta(days=5)
    table.batches(1)

    assert len(left) > 6, "each version of the time for travel could be read"
    assert younger == left, "files that are younger than orphans"
    assert within_its_time == sorted(within_its_time)
    assert table.unneeded() == set()
    assert table.in_iceberg() <= table.on_disk()
    assert verify_table(lake.lake, lake.spec).clean
    assert DeltaTable(str(table.folder)).version() == newest + 4, "the search writes nothing to the log"


def test_no_version_of_the_time_for_travel_is_lost_however_often_snapshots_expire(lake: SmallLake) -> None:
    table = Expired(lake)
    table.batches(5)

    table.later = timedelta(hours=23)
    table.restart()
    table.batches(2)

    newest = DeltaTable(str(table.folder)).version()
    assert len(table.rows_of(range(newest + 1))) == newest + 1


def test_files_that_a_process_left_are_found_by_the_next_one(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died between its commit and the deletion, when the files were not needed any more."""
    table = Expired(lake)
    table.batches(3)
    table.later = timedelta(days=5)
    with monkeypatch.context() as killed:
        killed.setattr("frazil.maintain.expiring.clean", lambda *_, **__: None)
        table.batches(2)
    left = table.unneeded()

    table.restart()
    table.later += timedelta(days=5)
    table.batches(1)

    assert left
    assert table.unneeded() == set()


def test_a_file_that_a_snapshot_has_stays_though_the_log_removed_it_long_ago(lake: SmallLake) -> None:
    table = Expired(lake)
    table.batches(2)
    tagged = lake.view.head
    assert tagged is not None
    lake.table.manage_snapshots().create_tag(tagged, "export").commit()
    rows = lake.table.scan(snapshot_id=tagged).to_arrow().num_rows

    table.later = timedelta(days=5)
    table.batches(3)

    assert lake.table.scan(snapshot_id=tagged).to_arrow().num_rows == rows
    assert table.in_iceberg() <= table.on_disk()


def test_all_removed_files_are_sought_once_a_day(lake: SmallLake) -> None:
    table = Expired(lake)
    table.batches(2)
    table.later = timedelta(days=5)
    table.batches(1)
    gone = table.logs().removed(lake.view.location) - table.on_disk()
    stray = table.folder / min(gone)
    stray.write_bytes(b"a deletion that failed")

    table.batches(1)
    before = stray.exists()
    table.later += timedelta(days=1)
    table.batches(1)

    assert (before, stray.exists()) == (True, False)


@pytest.mark.parametrize("is_renamed", [True, False])
def test_files_of_another_table_that_had_this_folder_stay(lake: SmallLake, is_renamed: bool) -> None:
    """A new table of the same name gets the folder, and the log as well: its next version removes all of them."""
    table = Expired(lake)
    table.batches(1)
    files = table.in_iceberg()
    if is_renamed:
        lake.lake.catalog.rename_table(lake.spec.identifier, f"{lake.spec.database}.renamed")
        again = SmallLake(lake.folder, lake.spec, batch_name="again")
    else:
        again = lake.make_rows_again()
    table = Expired(again)
    table.batches(2)
    removed = table.logs().removed(again.view.location)

    table.later = timedelta(days=5)
    table.batches(2)

    assert files <= removed
    assert files <= table.on_disk()


def test_the_clean_up_of_orphans_deletes_what_the_log_has_left(lake: SmallLake) -> None:
    table = Expired(lake)
    table.batches(6)
    left = table.on_disk() - table.in_iceberg() - {file.path for file in table.files_of_newest()}
    newest = DeltaTable(str(table.folder)).version()
    then = (datetime.now(UTC) - timedelta(days=5)).timestamp()
    for path in table.folder.rglob("*"):
        os.utime(path, (then, then))

    kept = OrphanSearch(lake.lake, travel=AGE).find(lake.spec.identifier, now=table.now)
    table.later = timedelta(days=5)
    orphans = OrphanSearch(lake.lake, travel=AGE).find(lake.spec.identifier, now=table.now)

    assert kept is not None
    assert orphans is not None
    only_of_log = {str(table.folder / path) for path in left}
    assert only_of_log
    assert not only_of_log & {each.address for each in kept.files}, "by the times that the versions state"
    assert only_of_log <= {each.address for each in orphans.files}
    OrphanSearch(lake.lake).delete(orphans)
    assert table.unneeded() == set()
    assert table.rows_of([newest]) == [lake.table.scan().to_arrow().num_rows]
    assert verify_table(lake.lake, lake.spec).clean
