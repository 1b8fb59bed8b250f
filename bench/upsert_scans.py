"""Upserts by Frazil alone: how fast the table's last snapshots are read, against the same table compacted."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from bench.keyed_orders import TOPIC, Changelog
from bench.lakes import latest_metadata
from bench.subjects import code_in_use
from bench.updates import Updates
from bench.upsert_memory import CHART
from frazil.adapters.iceberg.lake import CATALOG_NAME
from frazil.model.settings import CatalogSettings
from frazil.query import LOCAL_EXTENSIONS, extension_file
from tests.faults.procedures import procedures

SCANS = 5
PAIRS = 3
"""Scans of each snapshot, in turns with scans of the compacted table."""

SNAPSHOTS = 15
"""The last snapshots that are scanned: those of batches, and those of rewrites between them."""

CLOCKS: Mapping[int, Callable[[], float]] = {1: time.process_time, 2: time.monotonic}
"""Clocks by number of threads: DuckDB reads one file with one of two threads, so only with one its CPU is compared."""

FIRST_BATCHES = 20
TARGET_SCAN = 1.3


@dataclass(frozen=True, slots=True)
class Scans:
    """Seconds of scans by number of threads: of each of the last snapshots, and of the compacted table beside it.

    `deleted` are the deleted rows of each snapshot as a share of the rows that are left, and `files` its data files.
    """

    seconds: Mapping[int, Sequence[tuple[float, float]]]
    deleted: Sequence[float]
    files: Sequence[int]

    def ratios(self, threads: int) -> list[float]:
        return [seconds / compacted for seconds, compacted in self.seconds[threads]]


def scanner(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    for extension in LOCAL_EXTENSIONS:
        connection.execute(f"LOAD '{extension_file(extension)}'")
    return connection


def table(
    connection: duckdb.DuckDBPyConnection, warehouse: Path, snapshot: int | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the table as it is now, or as of a snapshot."""
    location = latest_metadata(warehouse, TOPIC)["location-of-this"].removeprefix("file:")
    at = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return connection.sql(f"SELECT * FROM iceberg_scan('{location}'{at})")


def seconds_of_scan(connection: duckdb.DuckDBPyConnection, warehouse: Path) -> float:
    """Return the least seconds of a few scans of every column."""
    source = table(connection, warehouse)
    return min(_timed(source, time.monotonic) for _ in range(SCANS))


def _timed(source: duckdb.DuckDBPyRelation, clock: Callable[[], float]) -> float:
    began = clock()
    source.aggregate("count(*), " + ", ".join(f'max("{name}")' for name in source.columns)).fetchall()
    return clock() - began


def scans_of(warehouse: Path) -> Scans:
    """Compact the table by Iceberg's own procedure, and scan the snapshots before that in turns with the new one."""
    snapshots = sorted(latest_metadata(warehouse, TOPIC)["snapshots"], key=lambda each: int(each["sequence-number"]))
    last = snapshots[-SNAPSHOTS:]
    with procedures(warehouse.parent, {CATALOG_NAME: CatalogSettings("jdbc", str(warehouse))}) as spark:
        spark.compact(CATALOG_NAME, f"bench.{TOPIC}")
    seconds = {threads: _pairs(warehouse, [int(each["snapshot-id"]) for each in last], threads) for threads in CLOCKS}
    summaries = [each["summary"] for each in last]
    deleted = [int(each["total-position-deletes"]) for each in summaries]
    left = [int(each["total-records"]) - gone for each, gone in zip(summaries, deleted, strict=True)]
    shares = [gone / rows for gone, rows in zip(deleted, left, strict=True)]
    return Scans(seconds, shares, [int(each["total-data-files"]) for each in summaries])


def _pairs(warehouse: Path, snapshots: Sequence[int], threads: int) -> list[tuple[float, float]]:
    """Return the least seconds of a scan of each snapshot, and of the scans of the present table between them."""
    with scanner(threads) as connection:
        compacted, found = table(connection, warehouse), []
        for snapshot in snapshots:
            then, clock = table(connection, warehouse, snapshot), CLOCKS[threads]
            times = [(_timed(then, clock), _timed(compacted, clock)) for _ in range(PAIRS)]
            found.append((min(each for each, _ in times), min(each for _, each in times)))
        return found


def report_alone(changelog: Changelog, updates: Updates, scans: Scans, *, load: tuple[float, float]) -> str:
    cost, wall = updates.cost, sum(updates.seconds)
    copied, rewriting = (sum(each[name] for each in updates.rewrites) for name in ("copied_rows", "seconds"))
    return "\n".join(
        (
            f"`python -m bench.upserts --frazil-only --stored {changelog.stored} --batch {changelog.batch}"
            f" --batches {changelog.batches}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores (load average"
            f" before: {load[0]:.1f}, after: {load[1]:.1f}), Python {sys.version.split()[0]}, {code_in_use()}.",
            "",
            f"{changelog.batches:,} batches update {changelog.batch:,} orders each, random among {changelog.stored:,}"
            f" that the table has, without a pause: {cost.rows_per_second:,.0f} rows/s, {cost.rows_per_cpu_second:,.0f}"
            f" rows per CPU-second. {len(updates.rewrites):,} batches were followed by a rewrite of files, which copied"
            f" {copied / cost.rows:.1f} rows for each update and took {rewriting / wall:.0%} of the wall time.",
            "",
            f"The last {len(scans.files)} snapshots are scanned in turns with the same table after Iceberg's"
            " `rewrite_data_files` of all files: a count and the maximum of every column by DuckDB, the least of"
            f" {PAIRS}. They have {min(scans.files)} to {max(scans.files)} data files, and {min(scans.deleted):.0%} to"
            f" {max(scans.deleted):.0%} deleted rows for those that are left. With two threads DuckDB reads the one"
            " compacted file with one of them, so only scans with one thread compare the work.",
            "",
            "| scan | compacted, s | ratio, mean | least | greatest | target | met in the mean |",
            "|---|---|---|---|---|---|---|",
            _row("1 thread, CPU time", scans, 1),
            _row("2 threads, wall time", scans, 2),
            "",
            f"Resident megabytes at the end of a batch, least to greatest: {memory(updates)}.",
            "",
            f"![Resident megabytes of Frazil's processes at the end of a batch]({CHART.name})",
        )
    )


def _row(name: str, scans: Scans, threads: int) -> str:
    ratios = scans.ratios(threads)
    mean, compacted = statistics.mean(ratios), statistics.median(seconds for _, seconds in scans.seconds[threads])
    met = "yes" if mean <= TARGET_SCAN else "**no**"
    return (
        f"| {name} | {compacted:.2f} | {mean:.2f} | {min(ratios):.2f} | {max(ratios):.2f} | ≤ {TARGET_SCAN} times"
        f" | {met} |"
    )


def memory(updates: Updates) -> str:
    """Say what each kind of process holds in the first batches, and in the last half."""
    first, last = updates.memory[:FIRST_BATCHES], updates.memory[len(updates.memory) // 2 :]
    parts = [f"{kind} {_span(first, kind)} and {_span(last, kind)}" for kind in ("driver", "JVM", "worker")]
    return f"in the first {len(first)} batches and in the last {len(last)}, {', '.join(parts)}"


def _span(sizes: Sequence[Mapping[str, int]], kind: str) -> str:
    found = [each[kind] for each in sizes]
    return f"{min(found)} to {max(found)}"
