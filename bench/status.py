"""How long does `frazil status` take for 100 tables?

Writes a section of bench/RESULTS.md. Needs no broker.

Usage: python -m bench.status [--tables N] [--commits N]

The tables are real, in an embedded catalog, and each look is a new process's: nothing of them is in memory. Their
history is put into their metadata as expiry leaves it (bench/commits.py). Kafka is not: it answers after 5 ms.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.commits import FILES, PARTITIONS, Orders
from bench.frazil_drain import spec_of
from bench.sections import put
from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.settings import CatalogSettings
from frazil.model.spec import Start, TableSpec
from frazil.monitoring.history import read_histories
from frazil.monitoring.page import status_page
from frazil.monitoring.prometheus import exposition
from frazil.monitoring.table_metrics import table_metrics
from frazil.status import TableStatus, table_statuses

TARGET_SECONDS = 5.0
ANSWER_SECONDS = 0.005
ROUNDS = 3
SNAPSHOTS = (21, 1_507)
"""Those of a young table, and those that the default settings keep of one with a batch each minute."""


@dataclass(frozen=True, slots=True)
class Took:
    """Wall and CPU seconds of a look, and of the page and the metrics after it; the sizes of both in KB."""

    seconds: float
    cpu: float
    page_seconds: float
    page_kb: float
    metrics_seconds: float
    metrics_kb: float
    megabytes: float


class Broker:
    """Topics whose partitions end 100 offsets after the tables."""

    def describe(self, topic: str) -> TopicFacts:
        time.sleep(ANSWER_SECONDS)
        return TopicFacts(topic, "id", {n: PartitionFacts(0, 10**10) for n in range(PARTITIONS[0])})

    def names(self) -> list[str]:
        return []

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        raise NotImplementedError


def make(folder: Path, tables: int, snapshots: int, commits: int) -> None:
    """Make tables with some commits of `FILES` files each, and as many snapshots in all."""
    for number in range(tables):
        orders = Orders(folder, PARTITIONS[0], f"bench.t{number:03}", f"t{number:03}")
        for _ in range(commits):
            orders.commit()
        orders.age(snapshots)


def look(folder: Path, tables: int) -> Took:
    """Look at the tables once. A process that calls this knows nothing of them."""
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    specs = [spec_of(f"t{number:03}") for number in range(tables)]
    began, cpu_began = time.monotonic(), time.process_time()
    found = _statuses(lake, specs)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
    assert all(each.state == "behind" and each.files and each.files.examined for each in found), found[0]
    began = time.monotonic()
    page = status_page(found, read_histories(lake, specs), (), now=datetime.now(UTC), title="Tables of bench")
    page_seconds = time.monotonic() - began
    began = time.monotonic()
    metrics = exposition(table_metrics(found))
    metrics_seconds = time.monotonic() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return Took(seconds, cpu, page_seconds, len(page) / 1e3, metrics_seconds, len(metrics) / 1e3, megabytes)


def _statuses(lake: IcebergLake, specs: list[TableSpec]) -> list[TableStatus]:
    now = datetime.now(UTC) + timedelta(minutes=1)
    return list(table_statuses(lake, Broker(), specs, delta_logs=lambda: DeltaRsLogs(lake.storage), now=now))


def measure(folder: Path, tables: int) -> Took:
    """Return the medians of looks in processes of their own."""
    command = [sys.executable, "-m", "bench.status", "--look", str(folder), "--tables", str(tables)]
    lines = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(ROUNDS)]
    each = [[float(number) for number in line.split()] for line in lines]
    return Took(*(statistics.median(numbers) for numbers in zip(*each, strict=True)))


def section(found: Mapping[int, Took], tables: int, commits: int) -> str:
    rows = (
        f"| {snapshots:,} | {took.seconds:.2f} | {took.cpu:.2f} | {took.page_seconds:.2f} | {took.page_kb:,.0f} |"
        f" {took.metrics_seconds:.2f} | {took.metrics_kb:,.0f} | {took.megabytes:,.0f} |"
        for snapshots, took in found.items()
    )
    ran_on = f"{datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores, Python {platform.python_version()}"
    return "\n".join(
        [
            f"`python -m bench.status --tables {tables} --commits {commits}`, {ran_on}. {tables} tables in an embedded"
            f" catalog, each with {commits * FILES} data files and a topic of its own with {PARTITIONS[0]} partitions;"
            f" Kafka is not real and answers after {ANSWER_SECONDS * 1000:.0f} ms. Medians of {ROUNDS} new processes,"
            f" without their start. Target: {TARGET_SECONDS:g} s.",
            "",
            "| snapshots each | status, s | CPU, s | page, s | page, KB | metrics, s | metrics, KB | memory, MB |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.status", description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--commits", type=int, default=10, help="real commits of each table")
    parser.add_argument("--look", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.look is not None:
        took = look(asked.look, asked.tables)
        print(*(getattr(took, name) for name in Took.__slots__))
        return
    found = {}
    for snapshots in SNAPSHOTS:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), asked.tables, snapshots, asked.commits)
            found[snapshots] = measure(Path(folder), asked.tables)
        print(snapshots, found[snapshots], file=sys.stderr)
    put("Status of many tables", section(found, asked.tables, asked.commits))


if __name__ == "__main__":
    main()
