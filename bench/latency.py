"""Fixed costs in a running process: an empty check, a batch of 1,000 rows; and a restart to the first new commit.

Usage: python -m bench.latency BOOTSTRAP REGISTRY FOLDER RESULT
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from bench.frazil_drain import settings_of
from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.local.produce import produce
from frazil.local.supervisor import LocalServices
from frazil.materialize.outcome import Published
from frazil.materialize.run import TableRun
from frazil.model.plan import NothingToDo

SMALL = 1_000
REPEATS = 7


def main(bootstrap: str, registry: str, folder: str, result: str) -> None:
    began = time.monotonic()
    topic = f"bench_small_{os.getpid()}"
    services = LocalServices(bootstrap, registry, "")
    produced = produce("stock_trades", SMALL, services=services, topic=topic).seconds
    warehouse = Path(folder)
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(bootstrap, registry, warehouse, topic)
    runner = SparkRunner(log_file=warehouse.parent / "spark.log")
    run = table_runs(open_clients(settings, runner, on_receipt=lambda _: None), settings.tables)[0]
    _batch(run, Published)
    restart = time.monotonic() - began - produced
    small, empty = [], []
    for _ in range(REPEATS):
        produce("stock_trades", SMALL, services=services, topic=topic)
        small.append(_batch(run, Published))
        empty.append(_batch(run, NothingToDo))
    runner.stop()
    found = {
        "restart to first commit": restart + _interpreter_seconds(),
        "batch of 1,000 rows": statistics.median(small),
        "empty check": statistics.median(empty),
    }
    Path(result).write_text(json.dumps(found))


def _batch(run: TableRun, expected: type) -> float:
    began = time.monotonic()
    outcome = run.batch()
    if not isinstance(outcome, expected):
        raise SystemExit(f"expected {expected.__name__}, found {outcome}")
    return time.monotonic() - began


def _interpreter_seconds() -> float:
    """What passed between the start of this process and the first line of `main`, imports included."""
    import psutil  # noqa: PLC0415

    return STARTED - psutil.Process().create_time()


STARTED = time.time()

if __name__ == "__main__":
    main(*sys.argv[1:])
