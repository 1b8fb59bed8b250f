"""Filters on times before 1970 in tables that are partitioned by them.

`docs/architecture.md`, "Times before 1970 in filters", tells readers what DuckDB leaves out.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import GreaterThanOrEqual

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

HOUR = 3_600_000_000
TIMES = [0, -1, -36 * HOUR]
"""Microseconds since 1970; the others are at noon of 30 December 1969 and at the end of 1969."""

FILTERS = {-36 * HOUR: "1969-12-30T12:00:00", -1: "1969-12-31T23:59:59.999999"}
LEAVES_OUT = {"month(seen)", "day(seen)"}
"""Partitions whose files DuckDB 1.5.5 leaves out: it rounds months and days towards 1970."""


@pytest.mark.parametrize("partition_by", ["year(seen)", "month(seen)", "day(seen)", "hour(seen)"])
def test_only_duckdb_leaves_out_files_of_months_and_days_before_1970(tmp_path: Path, partition_by: str) -> None:
    view = written(IcebergLake(CatalogSettings("jdbc", str(tmp_path))), partition_by)

    for least, text in FILTERS.items():
        expected = sum(time >= least for time in TIMES)
        assert view.current.scan(GreaterThanOrEqual("seen", text)).to_arrow().num_rows == expected
        pruned = f"seen >= TIMESTAMP '{text}'"
        assert (by_duckdb(view, pruned) == expected) is (partition_by not in LEAVES_OUT)
        assert by_duckdb(view, f"epoch_us(seen) >= {least}") == expected


def by_duckdb(view: TableView, condition: str) -> int:
    sql = f"SELECT count(*) FROM iceberg_scan('{metadata_location(view)}') WHERE {condition}"
    (count,) = engine().execute(sql).fetchall()[0]
    return int(count)


def written(lake: IcebergLake, partition_by: str) -> TableView:
    columns = [Column("seen", Scalar("timestamp"))]
    lake.create("lake.past", columns, partition_by=[partition_by], properties={}, summary={})
    files = DataFileWriter(write_target(view_of(lake)), storage={}, prefix="w", target_bytes=1 << 20)
    files.add(pa.RecordBatch.from_arrays([pa.array(TIMES, pa.timestamp("us"))], schema=files.arrow_schema))
    lake.stage(view_of(lake), base=view_of(lake).head or 0, branch="b", files=files.close(), summary={})
    lake.publish(view_of(lake), branch="b", tag="t", drop=["b"])
    return view_of(lake)


def view_of(lake: IcebergLake) -> TableView:
    found = lake.load("lake.past")
    assert found is not None
    return found
