"""How long does a table with little to do wait while others backfill, with 100 tables in one application?

Writes bench/fairness.svg and a section of bench/RESULTS.md. Needs no broker and no Spark.

Usage: python -m bench.fairness [--seconds N]

The scheduler is real: `run_every` with its threads and its queue. Batches are not: they only take the time that a real
one was measured to take. So this measures the wait for a slot, and not the wait for a core of the cluster.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from bench.frazil_drain import spec_of
from bench.sections import put
from frazil.materialize.outcome import Outcome, Published
from frazil.materialize.run import TableRun
from frazil.materialize.scheduling import schedule
from frazil.materialize.scheduling.fair_queue import FairQueue, in_flight
from frazil.materialize.scheduling.schedule import Stopping, run_every
from frazil.model.plan import NothingToDo, PartitionFacts, TopicFacts
from frazil.model.progress import TableState

TABLES, BACKFILLING = 100, 4
TRIGGER_SECONDS = 10.0
BACKFILL_SECONDS = 2.0
SMALL_SECONDS = 0.2
EMPTY_SECONDS = 0.01
"""Of a batch of a backlog, of a batch of a few rows, and of a check that finds nothing (bench/RESULTS.md)."""

RECORD_SECONDS = 30.0
"""How often a quiet table gets a record, on average."""

CHART = Path("bench/fairness.svg")
COLOURS = ("#d62728", "#1f77b4", "#2ca02c")


class Semaphore:
    """What the fair queue replaced, with the same interface."""

    def __init__(self, slots: int) -> None:
        self._slots = threading.BoundedSemaphore(slots)

    @contextmanager
    def slot(self) -> Iterator[bool]:
        with self._slots:
            yield True


@dataclass
class Measured:
    """A queue that remembers when each thread asked for its slot."""

    queue: FairQueue | Semaphore
    asked: threading.local = field(default_factory=threading.local)

    @contextmanager
    def slot(self) -> Iterator[bool]:
        self.asked.at = time.monotonic()
        with self.queue.slot() as granted:
            yield granted


@dataclass
class Quiet:
    """A table that gets a record now and then. `waits` are seconds in the queue of batches that had a record."""

    name: str
    measured: Measured
    arrivals: list[float]
    waits: list[float] = field(default_factory=list)
    state: TableState | None = None
    client_source: None = None
    clients: Any = field(init=False)
    spec: Any = field(init=False)

    def __post_init__(self) -> None:
        facts = TopicFacts(self.name, None, {0: PartitionFacts(0, 1)})
        topics = SimpleNamespace(describe=lambda _: facts)
        self.clients = SimpleNamespace(topics=topics, runner=SimpleNamespace(parallelism=1))
        self.spec = spec_of(self.name)

    def batch(self) -> Outcome:
        now = time.monotonic()
        has_record = bool(self.arrivals) and self.arrivals[0] <= self.measured.asked.at
        if has_record:
            self.waits.append(now - self.measured.asked.at)
            self.arrivals = [each for each in self.arrivals if each > now]
        time.sleep(SMALL_SECONDS if has_record else EMPTY_SECONDS)
        return NothingToDo(self.name, cast("TableState", None))


@dataclass
class Backfilling(Quiet):
    """A table that is never done."""

    batches: int = 0

    def batch(self) -> Outcome:
        time.sleep(BACKFILL_SECONDS)
        self.batches += 1
        behind = SimpleNamespace(state=SimpleNamespace(sources=()))
        receipt = SimpleNamespace(counts=SimpleNamespace(rows=0))
        return Published(cast("Any", receipt), cast("Any", behind), None)


@dataclass(frozen=True, slots=True)
class Found:
    """One case. `unserved` are tables whose record was still waiting at the end; their waits so far count as well."""

    name: str
    waits: Sequence[float]
    unserved: int
    backfills: int

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.waits, n=20)[-1]


def measure(name: str, queue_of: Callable[[Stopping], FairQueue | Semaphore], seconds: float) -> Found:
    stopping, began = Stopping(), time.monotonic()
    measured = Measured(queue_of(stopping))
    rng = random.Random(1)
    many = [Backfilling(f"backfill{n}", measured, []) for n in range(BACKFILLING)]
    quiet = [Quiet(f"quiet{n}", measured, _arrivals(rng, began, seconds)) for n in range(TABLES - BACKFILLING)]
    original = schedule._queue_for
    schedule._queue_for = lambda *_: cast("FairQueue", measured)
    timer = threading.Timer(seconds, stopping.stop)
    timer.start()
    try:
        run_every(cast("list[TableRun]", [*many, *quiet]), timedelta(seconds=TRIGGER_SECONDS), stopping)
    finally:
        schedule._queue_for = original
        timer.cancel()
    ended = began + seconds
    late = [ended - _first_trigger(table.arrivals[0], began) for table in quiet if table.arrivals]
    unserved = [wait for wait in late if wait > 0]
    waits = [wait for table in quiet for wait in table.waits] + unserved
    return Found(name, sorted(waits), len(unserved), sum(table.batches for table in many))


def _arrivals(rng: random.Random, began: float, seconds: float) -> list[float]:
    at, found = began, []
    while (at := at + rng.expovariate(1 / RECORD_SECONDS)) < began + seconds:
        found.append(at)
    return found


def _first_trigger(arrival: float, began: float) -> float:
    """When the table would have asked for a slot: at its next trigger."""
    return began + (int((arrival - began) / TRIGGER_SECONDS) + 1) * TRIGGER_SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each case runs")
    seconds = parser.parse_args().seconds
    found = [
        measure("semaphore of 4 (before)", lambda _: Semaphore(4), seconds),
        *(measure(f"fair queue, {cores} cores", _fair(cores), seconds) for cores in (2, 12)),
    ]
    CHART.write_text(chart(found))
    put("Waiting while others backfill", section(found, seconds))


def _fair(cores: int) -> Callable[[Stopping], FairQueue]:
    return lambda stopping: FairQueue(lambda: in_flight(cores), stopped=lambda: stopping.asked)


def section(found: Sequence[Found], seconds: float) -> str:
    rows = [
        f"| {each.name} | {len(each.waits)} | {statistics.median(each.waits):.2f} | **{each.p95:.2f}**"
        f" | {max(each.waits):.2f} | {each.unserved} | {each.backfills} |"
        for each in found
    ]
    return "\n".join(
        [
            f"`python -m bench.fairness --seconds {seconds:g}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores"
            f" shared with other work (load average {os.getloadavg()[0]:.0f}).",
            "",
            f"{TABLES} tables in one application, {BACKFILLING} of which backfill all the time; each other table gets a"
            f" record every {RECORD_SECONDS:.0f} s on average. Seconds between asking for a slot and getting one, for"
            f" batches of quiet tables that have a record.",
            "",
            "| slots given by | batches | median, s | p95, s | longest, s | never served | backfill batches |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "![Share of batches that have begun, by seconds of waiting](fairness.svg)",
            "",
            f"The scheduler, its threads and its queue are real. Batches are not: one of a backlog takes"
            f" {BACKFILL_SECONDS:g} s, a small one {SMALL_SECONDS:g} s, a check that finds nothing {EMPTY_SECONDS:g} s,"
            f" as sleeps. So this is the wait for a slot. With real tasks, the wait for a core of the cluster comes on"
            f" top: at most the rest of one task of a backfill. All tables have the same trigger"
            f" ({TRIGGER_SECONDS:g} s), so they ask at the same moment. A record that was not served by the end counts"
            f" with its wait so far.",
        ]
    )


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 620, 320, 50, 20, 36, 60


def chart(found: Sequence[Found]) -> str:
    """Share of batches over the seconds that they waited at most."""
    longest = max(each.waits[-1] for each in found)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, "Batches of quiet tables that have begun, by seconds of waiting", 13),
    ]
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        out += [f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#dddddd"/>']
        out += [
            _text(LEFT - 40, y + 4, f"{tenth * 10} %"),
            _text(_x(tenth / 10), HEIGHT - 40, f"{tenth / 10 * longest:.0f} s"),
        ]
    for n, each in enumerate(found):
        steps = [(wait / longest, (rank + 1) / len(each.waits)) for rank, wait in enumerate(each.waits)]
        points = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in [(0.0, 0.0), *steps, (1.0, 1.0)])
        out += [f'<polyline points="{points}" fill="none" stroke="{COLOURS[n]}" stroke-width="2"/>']
        out += [_text(LEFT + n * 190, HEIGHT - 14, f"● {each.name}", colour=COLOURS[n])]
    return "\n".join([*out, "</svg>", ""])


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, size: int = 11, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{text}</text>'


if __name__ == "__main__":
    main()
