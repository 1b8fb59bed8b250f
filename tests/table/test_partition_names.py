"""Partitions by columns whose names have letters beyond ASCII, which the Avro schema of a manifest cannot have."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

NAME = "lake.sizes"


@pytest.mark.parametrize("partition_by", ["größe", "truncate(2, größe)"])
def test_duckdb_and_pyiceberg_read_such_partitions(tmp_path: Path, partition_by: str) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    lake.create(NAME, [Column("größe", Scalar("string"))], partition_by=[partition_by], properties={}, summary={})
    files = DataFileWriter(write_target(view(lake)), storage={}, prefix="w", target_bytes=1 << 20)
    files.add(pa.RecordBatch.from_pydict({"größe": ["klein", "groß", "klein"]}, schema=files.arrow_schema))
    lake.stage(view(lake), base=view(lake).head or 0, branch="b", files=files.close(), summary={})
    lake.publish(view(lake), branch="b", tag="t", drop=["b"])

    assert [name.isascii() for name in avro_names(view(lake))] == [True]
    assert view(lake).current.scan(EqualTo("größe", "klein")).to_arrow().num_rows == 2
    with engine() as duckdb:
        sql = f"SELECT count(*) FROM iceberg_scan('{metadata_location(view(lake))}') WHERE größe = 'klein'"
        assert duckdb.execute(sql).fetchone() == (2,)


def view(lake: IcebergLake) -> TableView:
    found = lake.load(NAME)
    assert found is not None
    return found


def avro_names(at: TableView) -> list[str]:
    """Return the names of the partition fields in a manifest of the head."""
    table = at.current
    (manifest,) = table.current_snapshot().manifests(table.io)
    with table.io.new_input(manifest.manifest_path).open() as stream:
        schema = fastavro.reader(stream).metadata["avro.schema"]
    (data_file,) = (each["type"] for each in json.loads(schema)["fields"] if each["name"] == "data_file")
    (partition,) = (each["type"] for each in data_file["fields"] if each["name"] == "partition")
    return [each["name"] for each in partition["fields"]]
