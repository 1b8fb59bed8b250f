"""`make bench`: drains the same records through Frazil and through its peers, and writes bench/RESULTS.md.

The sections that other benchmarks wrote stay as they are (bench/sections.py).

Usage: python -m bench [--rows N] [--pairs N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from bench import orders
from bench.measure import Cost
from bench.sections import put_first
from frazil.formats.native import native_available
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up

HOME = Path(".frazil/bench")
Result = TypeVar("Result")
WITHOUT_NATIVE = Path(__file__).parent / "without_native"
SUBJECTS = ("bench.frazil_drain", "bench.peers.structured_streaming")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000, help="records in the topic")
    parser.add_argument("--pairs", type=int, default=3, help="interleaved runs of each subject")
    asked = parser.parse_args()
    if not orders.marker(asked.rows).exists():
        down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        print(f"filling the topic with {asked.rows:,} records, once", file=sys.stderr)
        orders.fill(services, asked.rows)
        ours, theirs = run_pairs(services, asked.pairs)
        fallback = subject("bench.frazil_drain", services, "fallback", Cost.read, PYTHONPATH=str(WITHOUT_NATIVE))
        print(_line(fallback), file=sys.stderr)
        stages = subject("bench.stages", services, "stages", lambda path: dict(json.loads(path.read_text())))
        latency = subject("bench.latency", services, "latency", lambda path: dict(json.loads(path.read_text())))
    finally:
        down(HOME / "local")
    text = report(asked, ours, theirs, fallback, stages, latency)
    put_first(text)
    print(text)


def run_pairs(services: LocalServices, pairs: int) -> tuple[list[Cost], list[Cost]]:
    """Turn and turn about, each first in every other pair, over a topic that the machine has just read once."""
    orders.read_through(services)
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for pair in range(pairs):
        turns = list(zip(SUBJECTS, costs, strict=True))
        for module, into in turns if pair % 2 == 0 else reversed(turns):
            into.append(subject(module, services, f"{module}-{pair}", Cost.read))
            print(_line(into[-1]), file=sys.stderr)
    return costs


def subject(module: str, services: LocalServices, name: str, read: Callable[[Path], Result], **env: str) -> Result:
    """Run one subject in a process of its own. `env` is added to the environment."""
    result = (HOME / f"{name}.json").absolute()
    result.unlink(missing_ok=True)
    folder = HOME / "warehouses" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", module, services.bootstrap_servers, services.schema_registry_url]
    with (HOME / f"{name}.log").open("wb") as log:
        command += [str(folder), str(result)]
        subprocess.run(command, check=True, stderr=log, stdout=log, env={**os.environ, **env})
    return read(result)


def report(
    asked: argparse.Namespace,
    ours: Sequence[Cost],
    theirs: Sequence[Cost],
    fallback: Cost,
    stages: dict[str, float],
    latency: dict[str, float],
) -> str:
    wall = [p.wall_seconds / f.wall_seconds for f, p in zip(ours, theirs, strict=True)]
    cpu = [f.rows_per_cpu_second / p.rows_per_cpu_second for f, p in zip(ours, theirs, strict=True)]
    decoder = "native" if native_available() else "fallback (no native decoder on this machine)"
    lines = [
        "# Results",
        "",
        f"`python -m bench --rows {asked.rows} --pairs {asked.pairs}` (`make bench` is the same with its defaults),"
        f" {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores of {_processor()}, Python"
        f" {platform.python_version()}, decoder: {decoder}.",
        "",
        "The broker runs on the same machine and its CPU is not counted; everything else is: driver, JVM, workers."
        " Spark is started before the clock is. Both sides write the same 25 columns in batches of 1,000,000 rows.",
        "",
        "| subject | rows/s | rows per CPU-second | JVM, MB | worker, MB |",
        "|---|---|---|---|---|",
        *(_row(cost) for cost in (*ours, *theirs)),
        "",
        f"Ratio, Frazil to plain Structured Streaming, median of {len(ours)} pairs:"
        f" **{statistics.median(cpu):.2f} times** in rows per CPU-second ({_span(cpu)}),"
        f" **{statistics.median(wall):.2f} times** in wall time ({_span(wall)}).",
        "",
        f"Without the native decoder: {fallback.rows_per_second:,.0f} rows/s, {fallback.rows_per_cpu_second:,.0f} rows"
        f" per CPU-second, {_of_median(fallback, theirs):.2f} times plain Structured Streaming.",
        "",
        "Stages alone, CPU microseconds a row, in one process (20 columns):",
        "",
        *(f"- {name}: {value:.2f}" for name, value in stages.items()),
        f"- native fetch + native decode + encode: {sum(v for n, v in stages.items() if 'fallback' not in n):.2f}",
        f"- Frazil, all of it (25 columns): {1e6 / statistics.median(c.rows_per_cpu_second for c in ours):.2f}",
        "",
        "Fixed costs, wall seconds:",
        "",
        *(f"- {name}: {value:.2f}" for name, value in latency.items()),
        "",
    ]
    return "\n".join(lines)


def _of_median(cost: Cost, others: Sequence[Cost]) -> float:
    return cost.rows_per_cpu_second / statistics.median(other.rows_per_cpu_second for other in others)


def _row(cost: Cost) -> str:
    return (
        f"| {cost.subject} | {cost.rows_per_second:,.0f} | {cost.rows_per_cpu_second:,.0f} | {cost.jvm_megabytes:,}"
        f" | {cost.worker_megabytes:,} |"
    )


def _line(cost: Cost) -> str:
    return (
        f"{cost.subject}: {cost.rows:,} rows in {cost.wall_seconds:.1f} s, {cost.rows_per_second:,.0f} rows/s,"
        f" {cost.rows_per_cpu_second:,.0f} rows per CPU-second"
    )


def _span(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
