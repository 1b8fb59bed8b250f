"""Frazil against its peers over the same topic, in interleaved rounds: the section of RESULTS.md about them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import orders
from bench.measure import Cost
from bench.subjects import CONNECT, FRAZIL, SPARK, Run, System, drain
from frazil.local.supervisor import LocalServices

TITLE = "Frazil and its peers"
SYSTEMS = (FRAZIL, SPARK, CONNECT)
CPU_TARGETS = {SPARK.name: 3.0, CONNECT.name: 4.5}
WALL_TARGETS = {SPARK.name: 2.5}
MEMORY_TARGETS = {"JVM": 406, "worker": 319}
"""Megabytes: the largest of three runs before records were fetched and decoded in native code."""

SETUP = (
    "The broker and the registry run on the same machine and their CPU is not counted; everything else is, of the"
    " whole process tree: driver, JVM, workers. Spark's session and the Connect worker are up before the clock is"
    " started; the query and the connector are started after. All write zstd level 1, data files of up to 512 MB and"
    " dictionary pages of up to 128 KiB. Frazil and Structured Streaming write 25 columns in batches of 1,000,000 rows."
    " The sink commits every 5 seconds, which makes about as many; it writes 23 columns, as none of the transformations"
    " it ships with copies the key or the schema id into the row. Its wall time ends with the commit that makes the"
    " last row visible."
)


@dataclass(frozen=True, slots=True)
class Target:
    """A measure with its limit: `found` must be at least `limit`, or at most if `at_most`."""

    measure: str
    limit: float
    found: float
    unit: str = " times"
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.found <= self.limit if self.at_most else self.found >= self.limit

    def __str__(self) -> str:
        sign, digits = "≤" if self.at_most else "≥", 0 if self.unit == " MB" else 2
        found = f"{self.found:,.{digits}f}{self.unit}"
        return f"| {self.measure} | {sign} {self.limit:g}{self.unit} | {found} | {'yes' if self.is_met else '**no**'} |"


def run_rounds(services: LocalServices, rounds: int) -> list[Run]:
    """Run the systems in turns, each round beginning with another one, over a topic that was just read once."""
    orders.read_through(services)
    found: list[Run] = []
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for system in in_turn(number):
            found += drain(system, services, [orders.TOPIC])
    return found


def in_turn(number: int) -> tuple[System, ...]:
    first = number % len(SYSTEMS)
    return (*SYSTEMS[first:], *SYSTEMS[:first])


def of(system: str, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.system == system]


def median(system: str, runs: Sequence[Run], measure: Callable[[Cost], float]) -> float:
    return statistics.median(measure(run.cost) for run in of(system, runs))


def ratios(peer: str, runs: Sequence[Run], measure: Callable[[Cost], float]) -> list[float]:
    """Return how many times Frazil's figure is the peer's, for each round."""
    pairs = zip(of(FRAZIL.name, runs), of(peer, runs), strict=True)
    return [measure(ours.cost) / measure(theirs.cost) for ours, theirs in pairs]


def cpu(cost: Cost) -> float:
    return cost.rows_per_cpu_second


def wall(cost: Cost) -> float:
    return cost.rows_per_second


def targets(runs: Sequence[Run]) -> list[Target]:
    ours = [run.cost for run in of(FRAZIL.name, runs)]
    jvm, worker = max(cost.jvm_megabytes for cost in ours), max(cost.worker_megabytes for cost in ours)
    return [
        *(_against(peer, limit, "rows per CPU-second", ratios(peer, runs, cpu)) for peer, limit in CPU_TARGETS.items()),
        *(_against(peer, limit, "wall time", ratios(peer, runs, wall)) for peer, limit in WALL_TARGETS.items()),
        Target("memory of the JVM", MEMORY_TARGETS["JVM"], jvm, " MB", at_most=True),
        Target("memory of a worker", MEMORY_TARGETS["worker"], worker, " MB", at_most=True),
    ]


def _against(peer: str, limit: float, measure: str, found: Sequence[float]) -> Target:
    span = f"{min(found):.2f} to {max(found):.2f}"
    return Target(f"{measure} against {peer}, median ({span})", limit, statistics.median(found))


def report(runs: Sequence[Run], expected: int) -> str:
    return "\n".join(
        [
            SETUP,
            "",
            "| system | rows/s | rows per CPU-second | JVM, MB | worker, MB | data files | bytes a row |",
            "|---|---|---|---|---|---|---|",
            *(_row(run) for system in SYSTEMS for run in of(system.name, runs)),
            "",
            *(verdict(system.name, runs, expected) for system in SYSTEMS),
            "",
            "| Frazil's measure | target | found | met |",
            "|---|---|---|---|",
            *map(str, targets(runs)),
        ]
    )


def verdict(system: str, runs: Sequence[Run], expected: int) -> str:
    """Return a line that says whether the system's tables have the right rows, compared with Frazil's."""
    reference = of(FRAZIL.name, runs)[0].contents
    found = [run.contents for run in of(system, runs)]
    wrong_counts = sorted({each.rows for each in found if each.rows != expected})
    wrong = sorted({name for each in found for name in each.different_from(reference)})
    absent = sorted(reference.checksums.keys() - found[0].checksums.keys())
    said = [
        f"**wrong number of rows: {', '.join(f'{n:,}' for n in wrong_counts)} of {expected:,}**"
        if wrong_counts
        else "",
        f"**wrong values in {' and '.join(f'`{name}`' for name in wrong)}**" if wrong else "",
        f"no column {' and '.join(f'`{name}`' for name in absent)}" if absent else "",
    ]
    problems = "; ".join(each for each in said if each)
    columns = len(found[0].checksums) - len(wrong)
    equal = f"{columns} columns equal" + ("" if system != FRAZIL.name else " in all rounds")
    rows = "" if wrong_counts else f"{expected:,} rows in each run; "
    return f"- {system}: {rows}{equal}{'; ' + problems if problems else ''}."


def _row(run: Run) -> str:
    cost, table = run.cost, run.contents
    return (
        f"| {run.system} | {cost.rows_per_second:,.0f} | {cost.rows_per_cpu_second:,.0f} | {cost.jvm_megabytes:,}"
        f" | {cost.worker_megabytes:,} | {table.files} | {table.bytes / table.rows:.1f} |"
    )
