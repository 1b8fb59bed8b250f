"""`make bench`: measures what has a target, most of it beside peers, and writes sections of bench/RESULTS.md.

Each part writes its own section; those of parts that do not run stay as they are (bench/sections.py). Some parts are
commands of their own, which run here as they do by default; those that write no section print what they found.

Usage: python -m bench [--rows N] [--rounds N] [--sweep-rows N] [--only PART...]
                       [--format-rows N] [--format-rounds N] [--format-kinds KIND...]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import comparison, format_costs, format_topics, orders, picture, sweeps
from bench.measure import Cost
from bench.sections import put
from bench.subjects import FALLBACK, HOME, Run, call, code_in_use, drain, keep, kept
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up


def main() -> None:
    asked = arguments().parse_args()
    if of_the_same_records := [part for part in asked.only if part in PARTS]:
        run_beside_peers(of_the_same_records, asked)
    for part in asked.only:
        if part in COMMANDS:
            print(f"── {part}", file=sys.stderr)
            subprocess.run([sys.executable, "-m", f"bench.{part}"], check=True)


def run_beside_peers(parts: Sequence[str], asked: argparse.Namespace) -> None:
    """Run parts that read topics of one broker."""
    needs_orders = not OWN_TOPICS.issuperset(parts)
    if needs_orders and not orders.marker(asked.rows).exists():
        down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        if needs_orders:
            print(f"filling the topic with {asked.rows:,} records, once", file=sys.stderr)
            orders.fill(services, asked.rows)
        for part in parts:
            print(f"── {part}", file=sys.stderr)
            PARTS[part](services, asked)
    finally:
        down(HOME / "local")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000, help="records in the topic")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved runs of each system")
    parser.add_argument("--sweep-rows", type=int, default=1_000_000, help="most records in a topic of the sweeps")
    parser.add_argument("--format-rows", type=int, default=200_000, help="records in each topic of the value formats")
    parser.add_argument("--format-rounds", type=int, default=7, help="interleaved runs of each value format")
    kinds, what = format_costs.KINDS, "what the value formats are measured with, beside good records; default: all"
    parser.add_argument("--format-kinds", nargs="+", choices=kinds, default=list(kinds), help=what)
    parser.add_argument("--only", nargs="+", choices=EVERY, default=EVERY, help="parts to run")
    return parser


def run_peers(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("peers", asked)
    runs = comparison.run_rounds(services, asked.rounds)
    keep("peers", runs)
    draw()
    shown = (
        "\n\n![Rows per CPU-second by system, and microseconds a row](peers.svg)" if picture.PICTURE.exists() else ""
    )
    put(comparison.TITLE, f"{began}\n\n{comparison.report(runs, asked.rows)}{shown}")


def run_stages(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("stages", asked)
    stages: Mapping[str, float] = json.loads(call("bench.stages", services).read_text())
    (HOME / "stages.json").write_text(json.dumps(stages))
    put(picture.STAGES_TITLE, f"{began}\n\n{picture.stages_report(stages, kept('peers'))}")
    draw()


def run_fallback(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("fallback", asked)
    (run,) = drain(FALLBACK, services, [orders.TOPIC])
    put("Without native code", f"{began}\n\n{fallback_report(run.cost, kept('peers'))}")


def fallback_report(cost: Cost, peers: list[Run]) -> str:
    text = f"{cost.rows_per_second:,.0f} rows/s, {cost.rows_per_cpu_second:,.0f} rows per CPU-second"
    if not peers:
        return f"{text}."
    theirs = comparison.median(comparison.SPARK.name, peers, comparison.cpu)
    return f"{text}: {cost.rows_per_cpu_second / theirs:.2f} times plain Structured Streaming."


def run_fixed(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("fixed", asked)
    found: Mapping[str, float] = json.loads(call("bench.latency", services).read_text())
    lines = [f"- {name}: {seconds:.2f}" for name, seconds in found.items()]
    put("Fixed costs", "\n".join([began, "", "Wall seconds:", "", *lines]))


def run_sweeps(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("sweeps", asked)
    put(sweeps.TITLE, f"{began}\n\n{sweeps.report(sweeps.run_shapes(services, asked.sweep_rows))}")


def run_formats(services: LocalServices, asked: argparse.Namespace) -> None:
    began = conditions("formats", asked)
    kinds = {"good", *asked.format_kinds}
    cases = [case for case in format_costs.CASES if case.what in kinds]
    ids = format_topics.fill(services, asked.format_rows)
    try:
        found = format_costs.rounds(
            services,
            HOME / "warehouses" / "formats",
            ids,
            cases=cases,
            records=asked.format_rows,
            count=asked.format_rounds,
        )
    finally:
        format_topics.remove(services)
    title = format_costs.TITLE
    if kinds != set(format_costs.KINDS):
        title += ": " + ", ".join(format_costs.WORDS[kind] for kind in format_costs.KINDS if kind in kinds)
    put(title, f"{began}\n\n{format_costs.report(found)}")


PARTS: Mapping[str, Callable[[LocalServices, argparse.Namespace], None]] = {
    "peers": run_peers,
    "stages": run_stages,
    "fallback": run_fallback,
    "fixed": run_fixed,
    "sweeps": run_sweeps,
    "formats": run_formats,
}
COMMANDS = (
    "upserts",
    "deduplicate",
    "envelopes",
    "masks",
    "transforms",
    "outputs",
    "exports",
    "compaction",
    "delta",
    "status",
    "commits",
    "hostile",
)
"""Parts that are commands of their own: `python -m bench.upserts --help`."""
EVERY = [*PARTS, *COMMANDS]
OWN_TOPICS = {"sweeps", "formats"}
"""Parts that do not read the topic of orders."""


def draw() -> None:
    """Draw the picture once both of its halves are measured."""
    runs, stages = kept("peers"), HOME / "stages.json"
    if runs and stages.exists():
        picture.draw(runs, json.loads(stages.read_text()))


def conditions(part: str, asked: argparse.Namespace) -> str:
    """Return what was run, when, and on what: with the load of the machine before."""
    sizes = {"peers": f" --rows {asked.rows} --rounds {asked.rounds}", "sweeps": f" --sweep-rows {asked.sweep_rows}"}
    sizes["formats"] = f" --format-rows {asked.format_rows} --format-rounds {asked.format_rounds}"
    if asked.format_kinds != list(format_costs.KINDS):
        sizes["formats"] += f" --format-kinds {' '.join(asked.format_kinds)}"
    size = sizes.get(part, f" --rows {asked.rows}" if part == "fallback" else "")
    return (
        f"`python -m bench{size} --only {part}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores of"
        f" {processor()} (load average before: {os.getloadavg()[0]:.1f}), Python {platform.python_version()},"
        f" {code_in_use()}."
    )


def processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
