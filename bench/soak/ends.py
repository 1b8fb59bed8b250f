"""What is left after the soak: is every table proven, and does every reader see the same?"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from bench.lakes import latest_metadata
from bench.soak.setting import DELTA, TABLES, Folder
from frazil.model.settings import CatalogSettings
from tests.faults.spark_catalogs import spark_catalog, start_environment, start_settings

Figures = tuple[int, int, int]
"""Of a table: its rows, the sum of their offsets, and that of offset times (partition + 1)."""

SQL = "count(*), coalesce(sum(kafka_offset), 0), coalesce(sum(kafka_offset * (kafka_partition + 1)), 0)"
DRAINS = 5


@dataclass(frozen=True, slots=True)
class Ends:
    """`unproven` has what `frazil verify` printed where it failed; `figures` are by reader and table."""

    drained: bool
    unproven: str
    figures: Mapping[str, Mapping[str, Figures]]
    rows: Mapping[str, int]

    @property
    def disagreeing(self) -> list[str]:
        """The tables of which two readers see different figures."""
        seen = {table: {of[table] for of in self.figures.values() if table in of} for table in TABLES}
        return sorted(table for table, found in seen.items() if len(found) != 1)


def ends(folder: Folder) -> Ends:
    drained = any(folder.run("materialize", "--once").returncode == 0 for _ in range(DRAINS))
    verified = folder.run("verify", "--against-kafka")
    figures = {
        "DuckDB (frazil query)": {table: _in_duckdb(folder, table) for table in TABLES},
        "PyIceberg": {table: _in_pyiceberg(folder, table) for table in TABLES},
        "Spark": _in_spark(folder),
        "delta-rs": {DELTA: _in_delta(folder)},
    }
    rows = {table: found[0] for table, found in figures["PyIceberg"].items()}
    return Ends(drained, "" if verified.returncode == 0 else verified.stdout + verified.stderr, figures, rows)


def _in_duckdb(folder: Folder, table: str) -> Figures:
    asked = folder.run("query", "--json", f"SELECT {SQL} FROM {table}")
    ((row),) = json.loads(asked.stdout)
    return _figures(list(row.values()))


def _in_pyiceberg(folder: Folder, table: str) -> Figures:
    metadata = latest_metadata(folder.warehouse, table)["location-of-this"]
    columns = ("kafka_partition", "kafka_offset")
    rows = StaticTable.from_metadata(metadata).scan(selected_fields=columns).to_arrow()
    return _sum(rows)


def _in_delta(folder: Folder) -> Figures:
    location = StaticTable.from_metadata(latest_metadata(folder.warehouse, DELTA)["location-of-this"]).location()
    return _sum(
        DeltaTable(location.removeprefix("file://")).to_pyarrow_table(columns=["kafka_partition", "kafka_offset"])
    )


def _sum(rows: object) -> Figures:
    with duckdb.connect() as connection:
        connection.register("found", rows)
        return _figures(connection.sql(f"SELECT {SQL} FROM found").fetchall()[0])


def _in_spark(folder: Folder) -> dict[str, Figures]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only at the end

    os.environ.update(start_environment())
    builder = SparkSession.builder.master("local[2]").appName("soak")
    catalog = spark_catalog("frazil", CatalogSettings("jdbc", str(folder.warehouse.absolute())))
    for name, value in {**start_settings(), **catalog}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        found = {table: session.sql(f"SELECT {SQL} FROM frazil.lake.{table}").collect()[0] for table in TABLES}
        return {table: _figures(row) for table, row in found.items()}
    finally:
        session.stop()


def _figures(values: object) -> Figures:
    rows, offsets, places = (int(each) for each in values)  # type: ignore[attr-defined]
    return rows, offsets, places
