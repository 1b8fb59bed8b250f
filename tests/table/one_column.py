"""A table of one column in an embedded catalog, whose filters engines are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

NAME = "lake.one_column"


def written(folder: Path, column: Column, values: Sequence[object], *, partition_by: Sequence[str] = ()) -> TableView:
    """Write the values, as Arrow has them, into a new table: a file for each partition."""
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    lake.create(NAME, [column], partition_by=partition_by, properties={}, summary={})
    files = DataFileWriter(write_target(_view_of(lake)), storage={}, prefix="w", target_bytes=1 << 20)
    held = pa.array(values, files.arrow_schema.field(0).type)
    files.add(pa.RecordBatch.from_arrays([held], schema=files.arrow_schema))
    base = _view_of(lake).head or 0
    lake.stage(_view_of(lake), base=base, branch="b", files=files.close(), summary={})
    lake.publish(_view_of(lake), branch="b", tag="t", drop=["b"])
    return _view_of(lake)


def changed(folder: Path, *changes: Change) -> TableView:
    """Change the columns of the table in this folder."""
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    lake.change_schema(_view_of(lake), changes, {})
    return _view_of(lake)


def count_in_duckdb(view: TableView, condition: str) -> int:
    sql = f"SELECT count(*) FROM iceberg_scan('{metadata_location(view)}') WHERE {condition}"
    (count,) = engine().execute(sql).fetchall()[0]
    return int(count)


def _view_of(lake: IcebergLake) -> TableView:
    view = lake.load(NAME)
    assert view is not None
    return view
