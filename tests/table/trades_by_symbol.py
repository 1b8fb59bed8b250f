"""A small table of symbols and numbers in a real catalog: published with deletes, and read by several engines."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.ingested import Deletion, WrittenFile
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

PATH_ID = 2_147_483_546
"""The id of the column `file_path` in files of position deletes (Iceberg specification)."""

ROWS = 10


@dataclass(frozen=True)
class Trades:
    """A table of symbols and numbers, partitioned by symbol, in a real catalog."""

    lake: IcebergLake
    name: str

    @property
    def view(self) -> TableView:
        view = self.lake.load(self.name)
        assert view is not None
        return view

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(self.name)

    def files(self, symbol: str, numbers: Sequence[int]) -> tuple[WrittenFile, ...]:
        files = DataFileWriter(write_target(self.view), storage={}, prefix="w", target_bytes=1 << 20)
        rows = {"symbol": [symbol] * len(numbers), "n": list(numbers)}
        files.add(pa.RecordBatch.from_pydict(rows, schema=files.arrow_schema))
        return files.close()

    def publish(self, files: Sequence[WrittenFile], deletes: Sequence[Deletion] = ()) -> int:
        staged = self.lake.stage(
            self.view, base=self.view.head or 0, branch="b", files=files, summary={}, deletes=deletes
        )
        self.lake.publish(self.view, branch="b", tag="t", drop=["b"])
        return staged

    def by_pyiceberg(self) -> list[tuple[str, int]]:
        found = self.table.scan().to_arrow().to_pylist()
        return sorted((row["symbol"], row["n"]) for row in found)

    def by_duckdb(self) -> list[tuple[str, int]]:
        with engine() as duckdb:
            sql = f"SELECT symbol, n FROM iceberg_scan('{metadata_location(self.view)}') ORDER BY ALL"
            return [(symbol, n) for symbol, n in duckdb.execute(sql).fetchall()]

    def delete_files(self) -> list[DataFile]:
        manifests = self.table.current_snapshot().manifests(self.table.io)
        of_deletes = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
        return [entry.data_file for each in of_deletes for entry in each.fetch_manifest_entry(self.table.io)]


def new_trades(warehouse: Path) -> Trades:
    lake = IcebergLake(CatalogSettings("jdbc", str(warehouse)))
    name = f"lake.t{uuid.uuid4().hex}"
    columns = [Column("symbol", Scalar("string")), Column("n", Scalar("int"))]
    lake.create(name, columns, partition_by=("symbol",), properties={}, summary={})
    return Trades(lake, name)
