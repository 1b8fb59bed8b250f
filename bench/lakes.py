"""What the tables of a benchmark hold: rows, files, and checksums of every cell. Each system has its own warehouse."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable

Metadata = Mapping[str, Any]
COORDINATES = ("kafka_partition", "kafka_offset")


@dataclass(frozen=True, slots=True)
class Contents:
    """Of a table: its rows, its data files, and a checksum for each column.

    A checksum is the sum of the hashes of (partition, offset, cell): equal if each record has the same cell.
    """

    rows: int
    files: int
    bytes: int
    checksums: Mapping[str, int]

    def different_from(self, other: Contents) -> tuple[str, ...]:
        """Return the columns of both that differ."""
        common = [name for name in other.checksums if name in self.checksums]
        return tuple(name for name in common if self.checksums[name] != other.checksums[name])


def latest_metadata(warehouse: Path, table: str) -> Metadata:
    """Return the table's newest metadata file, as the SQLite catalog of the warehouse names it."""
    with sqlite3.connect(f"file:{warehouse}/catalog.db?mode=ro", uri=True, timeout=30) as catalog:
        found = catalog.execute("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", (table,))
        (location,) = found.fetchone()
    return {**json.loads(Path(location.removeprefix("file:")).read_text()), "location-of-this": location}


def total_records(metadata: Metadata) -> int:
    """Return how many rows the current snapshot has; 0 without one."""
    current = metadata.get("current-snapshot-id")
    snapshots = metadata.get("snapshots", ())
    counts = [int(s["summary"]["total-records"]) for s in snapshots if s["snapshot-id"] == current]
    return counts[0] if counts else 0


def contents(warehouse: Path, table: str) -> Contents:
    """Read every row of a table in append mode."""
    scan = StaticTable.from_metadata(latest_metadata(warehouse, table)["location-of-this"]).scan()
    files = [task.file for task in scan.plan_files()]
    paths = [file.file_path.removeprefix("file:") for file in files]
    rows, checksums = checksums_of(paths)
    return Contents(rows, len(files), sum(file.file_size_in_bytes for file in files), checksums)


def checksums_of(paths: Sequence[str]) -> tuple[int, dict[str, int]]:
    with duckdb.connect() as connection:
        return checksums(connection.read_parquet(list(paths)))


def checksums(source: duckdb.DuckDBPyRelation) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and the checksum of each column."""
    names = source.columns
    partition, offset = COORDINATES
    sums = ", ".join(f'sum(hash("{partition}", "{offset}", "{name}")::HUGEINT)' for name in names)
    found = source.aggregate(f"count(*), {sums}").fetchone()
    assert found is not None
    return int(found[0]), dict(zip(names, map(int, found[1:]), strict=True))
