"""The systems that the benchmarks run: each in a process of its own, which drains topics and writes what that cost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.lakes import Contents, contents
from bench.measure import Cost, read_costs
from frazil.adapters.kafka.reader import why_not_native
from frazil.formats.native import native_available
from frazil.local.supervisor import LocalServices

HOME = Path(".frazil/bench")


@dataclass(frozen=True, slots=True)
class System:
    """A system under test. `module` is called with the addresses, a folder, a file for its result, and topics."""

    name: str
    module: str
    environment: Mapping[str, str] = field(default_factory=dict)


FRAZIL = System("Frazil", "bench.frazil_drain")
SPARK = System("Structured Streaming", "bench.peers.structured_streaming")
CONNECT = System("Kafka Connect sink", "bench.peers.kafka_connect")
FALLBACK = System("Frazil in Python", FRAZIL.module, {"PYTHONPATH": str(Path(__file__).parent / "without_native")})


@dataclass(frozen=True, slots=True)
class Run:
    """One topic drained by one system: what it cost, and what is in the table."""

    system: str
    cost: Cost
    contents: Contents

    def __str__(self) -> str:
        cost = self.cost
        return (
            f"{self.system}: {cost.rows:,} rows in {cost.wall_seconds:.1f} s, {cost.rows_per_second:,.0f} rows/s,"
            f" {cost.rows_per_cpu_second:,.0f} rows per CPU-second, {cost.jvm_megabytes:,} MB in the JVM"
        )


def drain(system: System, services: LocalServices, topics: Sequence[str]) -> list[Run]:
    """Run a system over topics, one after the other, and read back their tables."""
    warehouse = HOME / "warehouses" / system.module
    found = read_costs(call(system.module, services, topics, system.environment))
    runs = [
        Run(system.name, cost, contents(warehouse.absolute(), topic)) for topic, cost in zip(topics, found, strict=True)
    ]
    shutil.rmtree(warehouse)
    for run in runs:
        print(run, file=sys.stderr)
    return runs


def call(
    module: str, services: LocalServices, topics: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Path:
    """Run a module in a process of its own, and return the file of its result."""
    result, folder = (HOME / f"{module}.json").absolute(), HOME / "warehouses" / module
    result.unlink(missing_ok=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", module, services.bootstrap_servers, services.schema_registry_url]
    command += [str(folder), str(result), *topics]
    variables = {**os.environ, **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all modules, 3 CPU-seconds in all
    with (HOME / f"{module}.log").open("wb") as log:
        done = subprocess.run(command, check=False, stderr=log, stdout=log, env=variables)
    if done.returncode != 0:
        raise SystemExit(f"{module} failed with exit status {done.returncode}: see {log.name}")
    return result


def code_in_use() -> str:
    """Return whether records are fetched and decoded in native code, in words, with the reason if not."""
    reader = why_not_native()
    fetch = "native fetch" if reader is None else f"**fetch in Python** ({reader})"
    return f"{fetch}, {'native decode' if native_available() else '**decode in Python**'}"


def keep(name: str, runs: Sequence[Run]) -> None:
    """Store runs, so that a later part of the benchmark can compare itself with them."""
    (HOME / f"{name}.json").write_text(json.dumps([asdict(run) for run in runs]))


def kept(name: str) -> list[Run]:
    """Return the stored runs; none if that part has not run."""
    path = HOME / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else []
    return [Run(each["system"], Cost(**each["cost"]), Contents(**each["contents"])) for each in found]
