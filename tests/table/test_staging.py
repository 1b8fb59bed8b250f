"""Files on a branch, whatever their partitions are, and the manifests that name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import live_files
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.errors import CommitRejectedError
from frazil.model.ingested import WrittenFile
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView

YEAR_55838 = 1_700_000_000_000_000_000


def test_a_partition_beyond_the_year_9999_is_staged_and_counted(tmp_path: Path) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    columns = [Column("at", Scalar("timestamptz"))]
    view = lake.create("lake.far", columns, partition_by=("day(at)",), properties={}, summary={})
    files = DataFileWriter(write_target(view), storage={}, prefix="w", target_bytes=1 << 20)
    stamps = pa.array([0, YEAR_55838, YEAR_55838], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    files.add(pa.RecordBatch.from_arrays([stamps], schema=files.arrow_schema))

    staged = lake.stage(view, base=view.head or 0, branch="b", files=files.close(), summary={"frazil.epoch": "1"})

    now = lake.load("lake.far")
    assert now is not None
    snapshot = now.snapshots[staged]
    assert now.branches["b"] == staged
    assert (snapshot.figure("added-records"), snapshot.figure("added-data-files")) == (3, 2)
    assert (snapshot.figure("total-records"), snapshot.summary["frazil.epoch"]) == (3, "1")


@dataclass(frozen=True)
class Orders:
    """A table of symbols and numbers in a real catalog."""

    lake: IcebergLake

    @property
    def view(self) -> TableView:
        view = self.lake.load("lake.orders")
        assert view is not None
        return view

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table("lake.orders")

    def files(self, symbols: Sequence[str]) -> tuple[WrittenFile, ...]:
        """Written for the partition spec that the table has now."""
        files = DataFileWriter(write_target(self.view), storage={}, prefix="w", target_bytes=1 << 20)
        rows = {"symbol": list(symbols), "n": list(range(len(symbols)))}
        files.add(pa.RecordBatch.from_pydict(rows, schema=files.arrow_schema))
        return files.close()

    def publish(self, files: Sequence[WrittenFile]) -> int:
        base = self.view.head or 0
        staged = self.lake.stage(self.view, base=base, branch="b", files=files, summary={})
        self.lake.publish(self.view, branch="b", tag="t", drop=["b"])
        return staged


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    columns = [Column("symbol", Scalar("string")), Column("n", Scalar("int"))]
    lake.create("lake.orders", columns, partition_by=("symbol",), properties={}, summary={})
    return Orders(lake)


def test_files_keep_the_partition_spec_that_they_were_written_with(orders: Orders) -> None:
    before = orders.files(["aa", "bb"])
    with orders.table.update_spec() as update:
        update.remove_field("symbol").add_field("symbol", "truncate[1]", "first")
    after = orders.files(["aa"])

    orders.publish([*before, *after])

    found = {symbol: orders.table.scan(f"symbol = '{symbol}'").to_arrow().num_rows for symbol in ("aa", "bb", "cc")}
    assert found == {"aa": 2, "bb": 1, "cc": 0}
    assert orders.table.scan("n = 0").to_arrow().num_rows == 2
    manifests = orders.table.current_snapshot().manifests(orders.table.io)
    assert sorted((m.partition_spec_id, m.added_files_count) for m in manifests) == [(0, 2), (1, 1)]
    staged_again = orders.lake.added_files(orders.view, orders.view.head or 0)
    assert {file.path: file.spec_id for file in staged_again} == {f.path: f.spec_id for f in (*before, *after)}


def test_files_of_a_partition_spec_that_the_table_does_not_have_are_refused(orders: Orders) -> None:
    files = [replace(file, spec_id=7) for file in orders.files(["a"])]

    with pytest.raises(CommitRejectedError, match=r"written with partition spec 7, the table has \[0\]"):
        orders.publish(files)

    assert set(orders.view.branches) == {"main"}


def test_manifests_are_merged_and_their_entries_keep_the_snapshots_that_added_them(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.adapters.iceberg.manifests.AT_MOST_ALIKE", 4)
    first = orders.files(["a", "b"])
    published: dict[int, set[str]] = {}
    for number in range(15):
        files = [replace(file, path=f"{file.path}.{number}") for file in first]
        published[orders.publish(files)] = {file.path for file in files}

    manifests = orders.table.current_snapshot().manifests(orders.table.io)
    entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(orders.table.io)]
    added_by: dict[int, set[str]] = {snapshot_id: set() for snapshot_id in published}
    for entry in entries:
        added_by[entry.snapshot_id or 0].add(entry.data_file.file_path)
    assert len(manifests) <= 6
    assert added_by == published
    assert {entry.status for entry in entries} == {ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING}
    assert len({entry.sequence_number for entry in entries}) == 15
    for snapshot_id, paths in published.items():
        assert {file.path for file in orders.lake.added_files(orders.view, snapshot_id)} == paths
    assert len(live_files(orders.view, orders.view.head or 0).data) == 30
