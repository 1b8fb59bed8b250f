"""What an environment costs: idle, counted from the stacks as they are synthesized, and by the hour while jobs run.

`python -m infra.reports.costs ENVIRONMENT OUT` prints it for stacks that were written to OUT.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.model.prices import Prices
from frazil.specs.prices import read_prices
from infra.settings.file import load_environment
from infra.settings.model import Jobs

Document = Mapping[str, Any]
WORKED_MINUTES = 5
"""How long a scheduled run is taken to work, each hour; it costs nothing between."""


@dataclass(frozen=True, slots=True)
class Line:
    """The number of resources of a kind in a stack, and their monthly cost."""

    stack: str
    name: str
    count: int
    monthly: float


@dataclass(frozen=True, slots=True)
class JobCost:
    """What one job run costs while it runs; the streaming one never ends."""

    hourly: float
    monthly: float


def idle_costs(stacks: Mapping[str, Document], prices: Prices) -> tuple[Line, ...]:
    """Return one line for each kind of resource in each stack, in the order of the stacks."""
    return tuple(
        Line(stack, price.name, count, count * price.monthly)
        for stack, document in stacks.items()
        for kind, price in prices.idle.items()
        if (count := sum(_count(kind, body) for body in document.get("resource", {}).get(kind, {}).values()))
    )


def billed_elsewhere(stacks: Iterable[Document], prices: Prices) -> tuple[str, ...]:
    """Return what other companies bill for resources of the stacks."""
    kinds = {kind for document in stacks for kind in document.get("resource", {})}
    return tuple(sentence for kind, sentence in prices.billed_elsewhere.items() if kind in kinds)


def job_cost(jobs: Jobs, prices: Prices) -> JobCost:
    """Return the cost of one job run of the size in the settings."""
    price = prices.workers[jobs.architecture]
    hourly = price.of(jobs.driver) + jobs.executors * price.of(jobs.executor)
    return JobCost(hourly, hourly * prices.hours_per_month)


def report(stacks: Mapping[str, Document], jobs: Jobs, prices: Prices) -> Iterator[str]:
    """Yield the report: each line, the sum, the job, and the date of the prices."""
    lines = idle_costs(stacks, prices)
    for line in lines:
        yield f"  {line.monthly:9.2f}  {line.stack:<12} {line.count} x {line.name}"
    yield f"  {sum(line.monthly for line in lines):9.2f}  {prices.currency} a month while nothing runs"
    job = job_cost(jobs, prices)
    yield f"  {job.monthly:9.2f}  {prices.currency} a month for a job run that never ends ({job.hourly:.3f} an hour)"
    worked = f"{WORKED_MINUTES} minutes each hour"
    yield f"  {job.monthly * WORKED_MINUTES / 60:9.2f}  {prices.currency} a month with mode: scheduled, at {worked}"
    yield from (f"             {sentence}" for sentence in billed_elsewhere(stacks.values(), prices))
    yield f"  prices of {prices.on}: {prices.source}"


def read_stacks(out: Path) -> dict[str, Document]:
    """The stacks of a synthesis, in the order in which they are applied."""
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["stacks"]
    files = {name: out / each["synthesizedStackPath"] for name, each in manifest.items()}
    ordered = sorted(manifest, key=lambda name: (_depth(name, manifest), name))
    return {name: json.loads(files[name].read_text(encoding="utf-8")) for name in ordered}


def _depth(name: str, manifest: Document) -> int:
    return 1 + max((_depth(each, manifest) for each in manifest[name]["dependencies"]), default=0)


def _count(kind: str, body: Document) -> int:
    """Return the billed number: an interface endpoint counts once per zone, the gateway endpoint for S3 not at all."""
    copies = int(body.get("count", 1))
    if kind != "aws_vpc_endpoint":
        return copies
    subnets = body.get("subnet_ids", [])
    zones = len(subnets) if isinstance(subnets, list) else 1
    return copies * zones if body.get("vpc_endpoint_type") == "Interface" else 0


def main(arguments: Sequence[str]) -> None:
    environment, out = arguments
    settings = load_environment(environment, os.environ)
    for line in report(read_stacks(Path(out)), settings.jobs, read_prices()):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
