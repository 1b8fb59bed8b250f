"""What a second worker of a Spark cluster brings: the same topic is drained on one worker, and on two.

Master, workers, driver and broker share this machine, so this shows what the cluster costs rather than what it gains.

Usage: python -m bench.cluster [--rows N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench import orders
from bench.frazil_drain import settings_of
from bench.measure import Cost, measured, read_costs, write_costs
from bench.sections import put
from frazil.adapters.spark.cluster import SparkCluster
from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.materialize.scheduling.schedule import Stopping, run_once
from infra.artefacts.__main__ import main as pack_environment
from tests.faults.spark_cluster import served, spark_cluster

HOME = Path(".frazil/bench-cluster").absolute()
SERVICES = Path(".frazil/bench/local")
"""Those of `python -m bench`, so that a topic of as many rows is filled once."""
TITLE = "One worker and two"
WORKERS = (1, 2)
CORES = 1
PACKAGES = "environment.tar.gz"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="records in the topic")
    parser.add_argument("--drain", nargs=6, metavar="WORD", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drain:
        drain(*asked.drain)
        return
    if not orders.marker(asked.rows).exists():
        down(SERVICES, wipe=True)
    pack_environment(HOME / "packages" / PACKAGES)
    try:
        services = up(services=("broker", "registry"), directory=SERVICES, preferred_ports=ANY_FREE_PORTS)
        orders.fill(services, asked.rows)
        orders.read_through(services)
        costs = [drained(services, workers) for workers in WORKERS]
    finally:
        down(SERVICES)
    text = report(asked.rows, costs)
    put(TITLE, text)
    print(text)


def drained(services: LocalServices, workers: int) -> Cost:
    """Drain the topic on a new cluster, with a driver of its own."""
    folder = HOME / f"{workers}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with served(HOME / "packages") as address:
        words = (str(workers), str(folder), services.bootstrap_servers, services.schema_registry_url)
        command = [sys.executable, "-m", "bench.cluster", "--drain", *words, f"{address}/{PACKAGES}", str(folder)]
        settings = {"SPARK_CONF_DIR": str(folder / "spark/conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
        subprocess.run(command, check=True, env={**os.environ, **settings})
    (cost,) = read_costs(folder / "cost.json")
    return cost


def drain(workers: str, place: str, bootstrap: str, registry: str, packages: str, result: str) -> None:
    """Start the cluster below this process, whose CPU seconds thereby include it, and drain the topic."""
    folder = Path(place)
    (folder / "spark").mkdir()
    settings = settings_of(bootstrap, registry, folder / "warehouse", orders.TOPIC)
    with ExitStack() as stack:
        cluster = stack.enter_context(spark_cluster(folder / "spark", workers=int(workers), cores=CORES))
        runner = SparkRunner(log_file=folder / "spark.log", cluster=SparkCluster(cluster.master, packages))
        stack.callback(runner.stop)
        runner.start()
        clients = open_clients(settings, runner, on_receipt=lambda _: None)

        def rows() -> int:
            report = run_once(table_runs(clients, settings.tables), Stopping())[0]
            if report.failure is not None:
                raise report.failure
            return report.rows

        write_costs(Path(result) / "cost.json", [measured(f"{workers} x {CORES}", rows)])


def report(rows: int, costs: Sequence[Cost]) -> str:
    alone, together = costs
    return "\n".join(
        (
            f"`python -m bench.cluster --rows {rows}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores shared"
            f" with other work (load average {os.getloadavg()[0]:.0f}), Python {sys.version.split()[0]}.",
            "",
            f"A Spark standalone cluster on this machine, with traffic between its processes encrypted: {CORES} core a"
            " worker, batches of 1,000,000 rows of 20 columns. Spark and the workers' Python are started before the"
            " clock is. CPU seconds are those of driver, master, workers and executors, without the broker.",
            "",
            "| workers x cores | wall seconds | rows/s | CPU seconds | rows per CPU-second |",
            "|---|---|---|---|---|",
            *(
                f"| {cost.subject} | {cost.wall_seconds:.1f} | {cost.rows_per_second:,.0f} | {cost.cpu_seconds:.1f}"
                f" | {cost.rows_per_cpu_second:,.0f} |"
                for cost in costs
            ),
            "",
            f"With the second worker, wall time is {together.wall_seconds / alone.wall_seconds:.2f} times and CPU time"
            f" {together.cpu_seconds / alone.cpu_seconds:.2f} times that of one. Driver, broker and both workers share"
            f" the machine's {os.cpu_count()} cores, so this bounds the overhead of distribution, and says little of"
            " how far it scales: that takes machines of their own.",
        )
    )


if __name__ == "__main__":
    main()
