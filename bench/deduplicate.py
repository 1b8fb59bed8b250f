"""How long does `write: deduplicate` take for a batch, by the number of keys that the table has?

Prints CPU nanoseconds a stored key, on one core: the search of all stored keys, and the choice of first records. Half
of a batch's identities are in the table. Writes bench/deduplicate.svg.

Usage: python -m bench.deduplicate [--stored N...] [--batch N] [--runs N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.chart import Panel, svg
from bench.probe import filled, task_of
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.probe import probe
from frazil.model.ingested import FollowedRecords, FollowedRows, WrittenFile
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.settings import CatalogSettings
from frazil.modes.deduplicate import keep_the_first
from frazil.modes.mode import Written
from frazil.modes.wanted import Numbers, as_array

CHART = Path("bench/deduplicate.svg")
TARGET = 60
"""CPU nanoseconds a stored key."""


@dataclass(frozen=True, slots=True)
class Found:
    """CPU and wall seconds of a batch, the least of its runs, on a table of so many keys."""

    stored: int
    cpu: float
    wall: float

    @property
    def nanoseconds(self) -> float:
        return self.cpu / self.stored * 1e9


def batch_of(task: ProbeTask) -> Written:
    """Return a batch of one file that has each of the identities once."""
    count = len(task.first)
    zeros, offsets = as_array(np.zeros(count, np.int64)), as_array(np.arange(count))
    records = FollowedRecords(task.first, task.second, zeros, offsets, (zeros,))
    return Written((WrittenFile("b", count, 0, (), 0),), count, (FollowedRows("b", records),))


def seconds(task: ProbeTask, batch: Written) -> tuple[float, float]:
    """Return the CPU and wall seconds of one batch."""

    def find(first: Numbers, second: Numbers) -> Sequence[FoundRows]:
        return list(probe(replace(task, first=as_array(first), second=as_array(second))))

    began, wall = time.process_time(), time.perf_counter()
    change = keep_the_first(batch, find)
    took = time.process_time() - began, time.perf_counter() - wall
    assert change.late[0].rows.rows == batch.rows // 2
    return took


def measured(stored: int, batch: int, runs: int) -> Found:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        view, halves = filled(IcebergLake(CatalogSettings("jdbc", str(Path(folder)))), stored)
        task = task_of(view, halves, batch)
        del halves
        took = [seconds(task, batch_of(task)) for _ in range(runs)]
    return Found(stored, min(cpu for cpu, _ in took), min(wall for _, wall in took))


def straight(found: Sequence[Found]) -> list[tuple[float, float]]:
    """Return the line through all measurements with the least squares, at the first and the last of them."""
    slope, offset = np.polyfit([each.stored for each in found], [each.cpu for each in found], 1)
    ends = (found[0].stored, found[-1].stored)
    return [(stored / 1e6, float(slope * stored + offset)) for stored in ends]


def chart(found: Sequence[Found]) -> str:
    most = found[-1]
    by_key = {"measured": [(each.stored / 1e6, each.nanoseconds) for each in found]}
    by_batch = {"straight": straight(found), "measured": [(each.stored / 1e6, each.cpu) for each in found]}
    limit = TARGET * most.stored / 1e9
    return svg(
        [
            Panel("CPU nanoseconds a stored key", by_key, TARGET, 120, x_is="million stored keys"),
            Panel("CPU seconds a batch", by_batch, limit, limit * 4 / 3, x_is="million stored keys", scale=float),
        ]
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.deduplicate", description=__doc__)
    parser.add_argument("--stored", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--batch", type=int, default=200_000, help="records of a batch")
    parser.add_argument("--runs", type=int, default=3)
    asked, found = parser.parse_args(given), list[Found]()
    for stored in sorted(asked.stored):
        each = measured(stored, asked.batch, asked.runs)
        found.append(each)
        load = os.getloadavg()[0]
        print(
            f"{stored:,} stored keys, {asked.batch:,} records: {each.cpu:.2f} s of CPU, {each.wall:.2f} s wall,"
            f" {each.nanoseconds:.1f} ns of CPU a stored key (load average {load:.1f})",
            flush=True,
        )
    CHART.write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
