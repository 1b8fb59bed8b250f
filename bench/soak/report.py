"""The soak in words and in a plot."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.chart import Panel, svg
from bench.soak.ends import Ends
from bench.soak.faults import Driver
from bench.soak.setting import TABLES
from bench.soak.watch import Look, Memory, percentile

CHART = Path("bench/soak.svg")
POINTS = 12


@dataclass(frozen=True, slots=True)
class Run:
    """What a soak found. `ended` is the exit status of the last driver, which was asked to end."""

    minutes: float
    load_before: float
    ended: int
    driver: Driver
    faults: Sequence[tuple[float, str]]
    sizes: Sequence[Memory]
    looks: Sequence[Look]
    ends: Ends

    @property
    def good(self) -> bool:
        """Return whether all is proven, every reader agrees, and no driver ended by itself."""
        return self.ends.drained and not (self.ends.unproven or self.ends.disagreeing or self.driver.unasked)


def report(run: Run, sent: Mapping[str, int]) -> str:
    """Draw the plot, and return the section's text."""
    _draw(run)
    return "\n\n".join((*_conditions(run, sent), _faults(run), _outcome(run), *_tables(run)))


def _conditions(run: Run, sent: Mapping[str, int]) -> tuple[str, str]:
    command = (
        f"`python -m bench.soak --minutes {run.minutes:g}`, {datetime.now(UTC):%Y-%m-%d}, on 2 cores (load average"
        f" before: {run.load_before:.1f}), Python {platform.python_version()}."
    )
    what = (
        "Ten tables in all write modes, with routes, shapes, a Delta log, dead letters and late records:"
        f" {sum(sent.values()):,} records of {len(sent)} topics in {run.minutes:g} minutes, a batch of each table every"
        " 5 s, and maintenance as by default. Broker, registry, producer and readers share the cores."
    )
    return command, what


def _tables(run: Run) -> tuple[str, str, str]:
    last = run.looks[-1]
    rows = [
        (name, run.ends.rows[name], *(of.get(name, 0) for of in (last.data_files, last.delete_files, last.snapshots)))
        for name in TABLES
    ]
    table = "| table | rows | data files | delete files | snapshots |\n|---|---|---|---|---|\n" + "\n".join(
        "| " + " | ".join(each if isinstance(each, str) else f"{each:,}" for each in row) + " |" for row in rows
    )
    ages = [age for each in run.looks[1:-1] for age in each.ages.values()] or [0.0]
    sizes = (
        f"Warehouse at the end: {last.data_mb:,.0f} MB of data and {last.metadata_mb:,.0f} MB of metadata, with files"
        f" that no snapshot needs. Age of a table while faults went on: median {percentile(ages, 0.5):.0f} s, 95 %"
        f" below {percentile(ages, 0.95):.0f} s."
    )
    return "![Memory, data files and age over the minutes](soak.svg)", table, sizes


def _faults(run: Run) -> str:
    counted = Counter(name for _, name in run.faults)
    listed = ", ".join(f"{name} ({times})" for name, times in sorted(counted.items()))
    return f"Faults: {listed or 'none'}. The driver was started {run.driver.starts} times."


def _outcome(run: Run) -> str:
    ends = run.ends
    found = [
        "every record was read" if ends.drained else "**not every record was read**",
        "`frazil verify --against-kafka` found all tables clean"
        if not ends.unproven
        else f"**`frazil verify --against-kafka` failed**:\n\n```text\n{ends.unproven.strip()}\n```\n",
        f"{', '.join(ends.figures)} agree on rows and offsets"
        if not ends.disagreeing
        else f"**readers disagree** on {', '.join(ends.disagreeing)}",
        f"the last driver ended with status {run.ended}",
        *(f"**a driver ended by itself**: {each}" for each in run.driver.unasked),
    ]
    return "At the end: " + "; ".join(found) + "."


def _draw(run: Run) -> None:
    minutes = run.minutes or 1
    memory: dict[str, list[tuple[float, float]]] = {
        kind: _parts([(each.at, float(getattr(each, kind))) for each in run.sizes], minutes)
        for kind in ("driver", "jvm", "worker")
    }
    files = {
        "data files": _parts([(each.at, float(sum(each.data_files.values()))) for each in run.looks], minutes),
        "delete files": _parts([(each.at, float(sum(each.delete_files.values()))) for each in run.looks], minutes),
    }
    running = [each for each in run.looks[:-1] if each.ages]  # the last look is after the end
    ages = {
        "median": _parts([(each.at, percentile(list(each.ages.values()), 0.5)) for each in running], minutes),
        "oldest": _parts([(each.at, max(each.ages.values())) for each in running], minutes),
    }
    panels = [
        _panel("Resident megabytes, the largest of each part", memory, 200),
        _panel("Files of all tables", files, 100),
        _panel("Seconds since a table was complete", ages, 20),
    ]
    CHART.write_text(svg(panels), encoding="utf-8")


def _panel(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], step: int) -> Panel:
    highest = max((value for points in lines.values() for _, value in points), default=1.0)
    filled = {name: points for name, points in lines.items() if points}
    return Panel(title, filled, None, -(-highest // step) * step, x_is="minutes", scale=float)


def _parts(points: Sequence[tuple[float, float]], minutes: float) -> list[tuple[float, float]]:
    """Return a point for each of `POINTS` equal parts of the run that has any: at its end, with the largest value."""
    length = minutes / POINTS
    parts: dict[int, list[float]] = {}
    for at, value in points:
        parts.setdefault(min(int(at / 60 / length), POINTS - 1), []).append(value)
    return [(round((part + 1) * length, 1), max(values)) for part, values in sorted(parts.items())]
