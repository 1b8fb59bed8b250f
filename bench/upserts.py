"""Upserts against the same job written as `MERGE INTO`: rows a second, and how fast the tables are read afterwards.

With --frazil-only the peer is left out, and the last snapshots of Frazil's table are scanned (bench/upsert_scans.py).

Usage: python -m bench.upserts [--stored N] [--batch N] [--batches N] [--frazil-only]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import subjects
from bench.keyed_orders import TOPIC, Changelog, fill
from bench.lakes import checksums
from bench.peers.merge_into import COMPACT_EVERY
from bench.sections import put
from bench.subjects import System, call, code_in_use
from bench.updates import Updates
from bench.upsert_memory import draw
from bench.upsert_scans import SCANS, TARGET_SCAN, report_alone, scanner, scans_of, seconds_of_scan, table
from frazil.adapters.iceberg.lake import CATALOG_NAME
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.model.settings import CatalogSettings
from tests.faults.procedures import procedures

HOME = subjects.HOME / "upserts"
TITLE = "Upserts"
TITLE_ALONE = "Upserts by Frazil alone"
FRAZIL = System("Frazil", "bench.frazil_upserts")
MERGE = System("MERGE INTO", "bench.peers.merge_into")
CATALOGS = {FRAZIL.name: CATALOG_NAME, MERGE.name: "peer"}
TARGET_SIZE = Changelog(stored=10_000_000, batch=200_000, batches=100)
TARGET_ROWS_PER_SECOND, TARGET_RATIO = 60_000, 3


@dataclass(frozen=True, slots=True)
class Found:
    """What one system did: its updates, its table's rows and checksums, and seconds of a scan before and after."""

    updates: Updates
    rows: int
    checksums: dict[str, int]
    scan: float
    compacted: float


def main() -> None:
    asked = arguments().parse_args()
    changelog = Changelog(asked.stored, asked.batch, asked.batches)
    before = os.getloadavg()[0]
    down(HOME, wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME, preferred_ports=ANY_FREE_PORTS)
        print(f"filling the topic with {changelog.records:,} records", file=sys.stderr)
        fill(services, changelog)
        title, text = (alone if asked.frazil_only else against_merge)(services, changelog, before)
    finally:
        down(HOME, wipe=True)
    put(title, text)
    print(text)


def against_merge(services: LocalServices, changelog: Changelog, load_before: float) -> tuple[str, str]:
    """Return the title and the text of the section that compares both systems."""
    ours, theirs = (measured(system, services, changelog) for system in (FRAZIL, MERGE))
    return TITLE, report(changelog, ours, theirs, load=(load_before, os.getloadavg()[0]))


def alone(services: LocalServices, changelog: Changelog, load_before: float) -> tuple[str, str]:
    """Return the title and the text of the section on Frazil alone, and draw its memory."""
    updates, warehouse = updated(FRAZIL, services, changelog)
    scans = scans_of(warehouse)
    draw(updates)
    shutil.rmtree(warehouse)
    return TITLE_ALONE, report_alone(changelog, updates, scans, load=(load_before, os.getloadavg()[0]))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.upserts", description=__doc__)
    parser.add_argument("--stored", type=int, default=10_000_000, help="rows in the table before the updates")
    parser.add_argument("--batch", type=int, default=200_000, help="keys that a batch updates")
    parser.add_argument("--batches", type=int, default=100, help="batches of updates")
    parser.add_argument("--frazil-only", action="store_true", help="measure Frazil alone, without the peer")
    return parser


def measured(system: System, services: LocalServices, changelog: Changelog) -> Found:
    """Load and update a table, and scan it before and after Iceberg's own compaction of all its files."""
    updates, warehouse = updated(system, services, changelog)
    with scanner() as connection:
        rows, sums = checksums(table(connection, warehouse))
        scan = seconds_of_scan(connection, warehouse)
        catalog = CATALOGS[system.name]
        with procedures(warehouse.parent, {catalog: CatalogSettings("jdbc", str(warehouse))}) as spark:
            spark.compact(catalog, f"bench.{TOPIC}")
        compacted = seconds_of_scan(connection, warehouse)
    shutil.rmtree(warehouse)
    return Found(updates, rows, sums, scan, compacted)


def updated(system: System, services: LocalServices, changelog: Changelog) -> tuple[Updates, Path]:
    """Load and update a table, and return what that cost and the folder of its warehouse."""
    result = call(system.module, services, [TOPIC, str(changelog.stored), str(changelog.batch)])
    updates = Updates.read(result)
    print(f"{system.name}: {updates.cost.rows_per_second:,.0f} rows/s", file=sys.stderr)
    return updates, (subjects.HOME / "warehouses" / system.module).absolute()


def report(changelog: Changelog, ours: Found, theirs: Found, *, load: tuple[float, float]) -> str:
    return "\n".join(
        (
            f"`python -m bench.upserts --stored {changelog.stored} --batch {changelog.batch}"
            f" --batches {changelog.batches}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores (load average"
            f" before: {load[0]:.1f}, after: {load[1]:.1f}), Python {sys.version.split()[0]}, {code_in_use()}.",
            "",
            f"{changelog.batches:,} batches update {changelog.batch:,} orders each, random among {changelog.stored:,}"
            " that the table has. Both systems read the same topic, one after the other, with the same Spark, Iceberg"
            " runtime, catalog, cores and Parquet settings, and neither expires anything. Frazil writes files with many"
            " deleted rows again between its batches, as by default, and its time includes that; the peer does so with"
            f" Iceberg's `rewrite_data_files` after every {COMPACT_EVERY} batches. They are started and have loaded the"
            " table before the clock is started. The peer is `MERGE INTO` on the Kafka key in `foreachBatch`, with"
            " merge-on-read. A scan is a count and the maximum of every column by DuckDB, the"
            f" least of {SCANS}; compacted is after Iceberg's `rewrite_data_files` of all files."
            f" {difference(ours, theirs)}",
            "",
            "| system | rows/s | rows per CPU-second | seconds of a batch, first fifth | last fifth | JVM, MB"
            " | worker, MB | scan, s | compacted, s | ratio |",
            "|---|---|---|---|---|---|---|---|---|---|",
            _row(FRAZIL.name, ours),
            _row(MERGE.name, theirs),
            "",
            *smaller(changelog),
            "| Frazil's measure | target | found | met |",
            "|---|---|---|---|",
            *targets(ours, theirs),
            "",
            f"Share of Frazil's wall time by step: {shares(ours.updates)}.",
        )
    )


def difference(ours: Found, theirs: Found) -> str:
    """Say whether the two tables have the same rows, by the columns that both have."""
    wrong = [name for name, value in theirs.checksums.items() if ours.checksums.get(name) != value]
    if ours.rows != theirs.rows:
        return f"**The tables have {ours.rows:,} and {theirs.rows:,} rows.**"
    if wrong:
        return f"**The tables differ in {', '.join(wrong)}.**"
    return f"Both tables have the same {ours.rows:,} rows, by checksums of {len(theirs.checksums)} columns."


def _row(name: str, found: Found) -> str:
    cost, seconds = found.updates.cost, found.updates.seconds
    fifth = max(len(seconds) // 5, 1)
    first, last = (statistics.median(part) for part in (seconds[:fifth], seconds[-fifth:]))
    return (
        f"| {name} | {cost.rows_per_second:,.0f} | {cost.rows_per_cpu_second:,.0f} | {first:.2f} | {last:.2f}"
        f" | {cost.jvm_megabytes:,} | {cost.worker_megabytes:,} | {found.scan:.2f} | {found.compacted:.2f}"
        f" | {found.scan / found.compacted:.2f} |"
    )


def smaller(changelog: Changelog) -> Sequence[str]:
    """Say at which size the targets are to be met, unless it is this one."""
    if changelog == TARGET_SIZE:
        return ()
    size = TARGET_SIZE
    return (
        f"The targets are for {size.batches} batches and {size.stored:,} stored orders, which this run was not.",
        "",
    )


def targets(ours: Found, theirs: Found) -> Sequence[str]:
    speed, scan = ours.updates.cost.rows_per_second, ours.scan / ours.compacted
    ratio = speed / theirs.updates.cost.rows_per_second
    return (
        f"| rows/s | ≥ {TARGET_ROWS_PER_SECOND:,} | {speed:,.0f} | {_met(speed >= TARGET_ROWS_PER_SECOND)} |",
        f"| rows/s against MERGE INTO | ≥ {TARGET_RATIO} times | {ratio:.2f} times | {_met(ratio >= TARGET_RATIO)} |",
        f"| scan against compacted | ≤ {TARGET_SCAN} times | {scan:.2f} times | {_met(scan <= TARGET_SCAN)} |",
    )


def _met(is_met: bool) -> str:
    return "yes" if is_met else "**no**"


def shares(updates: Updates) -> str:
    """Return the share of each step in words, the largest first; what is between the steps is called the rest."""
    steps: dict[str, float] = defaultdict(float)
    for each in (*updates.steps, *({"rewriting": each["seconds"]} for each in updates.rewrites)):
        for name, seconds in each.items():
            steps[name] += seconds
    whole = sum(updates.seconds)
    steps["rest"] = whole - sum(steps.values())
    largest_first = sorted(steps.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in largest_first if seconds / whole >= 0.005)


if __name__ == "__main__":
    main()
