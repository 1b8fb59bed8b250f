"""Files on a branch, whatever their partitions are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from jobs.adapters.iceberg import IcebergLake
from jobs.materialize.ingest.distribute import write_target
from jobs.materialize.ingest.write import TableFiles
from jobs.model.columns import Column, Scalar
from jobs.model.spec import CatalogSettings

YEAR_55838 = 1_700_000_000_000_000_000


def test_a_partition_beyond_the_year_9999_is_staged_and_counted(tmp_path: Path) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    columns = [Column("at", Scalar("timestamptz"))]
    view = lake.create("lake.far", columns, partition_by=("day(at)",), properties={}, summary={})
    files = TableFiles(write_target(view), storage={}, prefix="w", target_bytes=1 << 20)
    stamps = pa.array([0, YEAR_55838, YEAR_55838], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    files.add(pa.RecordBatch.from_arrays([stamps], schema=files.arrow_schema))

    staged = lake.stage(view, base=view.head or 0, branch="b", files=files.close(), summary={"frazil.epoch": "1"})

    now = lake.load("lake.far")
    assert now is not None
    snapshot = now.snapshots[staged]
    assert now.branches["b"] == staged
    assert (snapshot.figure("added-records"), snapshot.figure("added-data-files")) == (3, 2)
    assert (snapshot.figure("total-records"), snapshot.summary["frazil.epoch"]) == (3, "1")
