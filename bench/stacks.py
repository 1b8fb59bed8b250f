"""Where Frazil's CPU time goes: stacks of all its processes, sampled by perf, and of the Python ones by py-spy.

Writes a section of bench/RESULTS.md. Both samplers are optional programs: perf comes with Linux's tools, py-spy with
`pip install py-spy`. Without a topic of an earlier `make bench`, one is filled.

Usage: python -m bench.stacks [--rows N]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from psutil import Process

from bench import orders
from bench.frazil_drain import drained, settings_of
from bench.sections import put
from bench.subjects import HOME, code_in_use
from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.local.state import read_state
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.model.errors import MissingToolError

TITLE = "Where the time goes"
RATE = 199
STACKS_RATE = 49
SHOWN = 12
START_SECONDS = 2
_SHARE = re.compile(r"^\s*(\d+\.\d+)%\s*\|([^|]+)\|(.+)$")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stacks", description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000, help="records in the topic")
    rows = parser.parse_args().rows
    for tool in ("perf", "py-spy"):
        require(tool)
    if not orders.marker(rows).exists():
        down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        orders.fill(services, rows)
        orders.read_through(services)
        runner = SparkRunner(log_file=HOME / "spark.log")
        runner.start()
        libraries = by_library(runner, services)
        functions = by_function(runner, services)
        runner.stop()
    finally:
        down(HOME / "local")
    put(TITLE, report(rows, libraries, functions))


def require(tool: str) -> None:
    if shutil.which(tool) is None:
        raise MissingToolError(
            f"Stacks cannot be sampled: expected {tool} on PATH, found none.",
            hint="install linux-perf (apt-get) and py-spy (pip), and run the command again",
        )


def by_library(runner: SparkRunner, services: LocalServices) -> list[tuple[str, str, float]]:
    """Return for each thread's name and library its percentage of all CPU time, the largest first."""
    data = HOME / "perf.data"
    with sampler(["perf", "record", "-F", str(RATE), "-e", "cpu-clock", "-o", str(data), "-p", measured_processes()]):
        drain(runner, services)
    command = ["perf", "report", "-i", str(data), "--stdio", "-t", "|", "--sort", "comm,dso"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return shares_of(done.stdout.splitlines())


def measured_processes() -> str:
    """Return the ids of this process and those below it, without the broker and the registry, joined by commas."""
    services = {state.process.pid for state in read_state((HOME / "local").absolute()).values() if state.process}
    tree = (Process(), *Process().children(recursive=True))
    return ",".join(str(process.pid) for process in tree if process.pid not in services)


def by_function(runner: SparkRunner, services: LocalServices) -> Mapping[str, float]:
    """Return for each Python function its percentage of samples in Python processes, with what it calls in C."""
    stacks = HOME / "stacks.txt"
    with sampler(
        ["py-spy", "record", "-s", "-r", str(STACKS_RATE), "-f", "raw", "-o", str(stacks), "-p", str(os.getpid())]
    ):
        drain(runner, services)
    return leaves_of(stacks.read_text().splitlines())


@contextmanager
def sampler(command: Sequence[str]) -> Iterator[None]:
    """Run a sampler until the end of the block, then let it write its file."""
    with (HOME / "stacks.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(START_SECONDS)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def drain(runner: SparkRunner, services: LocalServices) -> None:
    warehouse = HOME / "warehouses" / "stacks"
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(services.bootstrap_servers, services.schema_registry_url, warehouse, orders.TOPIC)
    (run,) = table_runs(open_clients(settings, runner, on_receipt=lambda _: None), settings.tables)
    drained(run)


def shares_of(lines: Iterable[str]) -> list[tuple[str, str, float]]:
    """Parse `perf report -t "|" --sort comm,dso`: (name of the thread, library, percentage)."""
    found = [match for line in lines if (match := _SHARE.match(line))]
    return [(match[2].strip(), match[3].strip(), float(match[1])) for match in found]


def leaves_of(lines: Iterable[str]) -> dict[str, float]:
    """Parse py-spy's raw stacks, `frame;frame;… count`: the percentage of each innermost Python frame."""
    counts: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        counts[stack.rpartition(";")[2]] += int(count)
    total = sum(counts.values())
    return {frame: 100 * count / total for frame, count in counts.most_common()}


def report(rows: int, libraries: Sequence[tuple[str, str, float]], functions: Mapping[str, float]) -> str:
    largest = ", ".join(f"`{frame.partition(' ')[0]}` ({share:.1f} %)" for frame, share in list(functions.items())[:3])
    return "\n".join(
        [
            f"`python -m bench.stacks --rows {rows}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores (load"
            f" average after: {os.getloadavg()[0]:.1f}), {code_in_use()}. One run with perf at {RATE} Hz, and one with"
            f" py-spy at {STACKS_RATE} Hz, after Spark has started. `rdk:` are threads of librdkafka, `python` are the"
            " driver and the workers.",
            "",
            f"The three largest costs of the Python processes, with what they call in C: {largest}.",
            "",
            "| thread | library | CPU time |",
            "|---|---|---|",
            *(f"| {program} | `{library}` | {share:.1f} % |" for program, library, share in libraries[:SHOWN]),
            "",
            "| innermost Python function, with what it calls in C | samples of Python processes |",
            "|---|---|",
            *(f"| `{frame}` | {share:.1f} % |" for frame, share in list(functions.items())[:SHOWN]),
        ]
    )


if __name__ == "__main__":
    main()
