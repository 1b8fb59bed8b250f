"""Subject: `frazil materialize --once` with `write: upsert`, over a changelog whose first records are loaded before.

Usage: python -m bench.frazil_upserts BOOTSTRAP REGISTRY FOLDER RESULT TOPIC STORED BATCH
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.frazil_drain import BATCH_ROWS, drained, settings_of
from bench.measure import resident_megabytes
from bench.updates import Updates
from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.materialize import rewrite_files
from frazil.model.receipt import Receipt


class RewriteLog(logging.Handler):
    """Keeps the figures of each rewrite of files that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.rewrites: list[dict[str, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "files_rewritten":
            self.rewrites.append({name: vars(record)[name] for name in ("files", "copied_rows", "seconds")})


def main(bootstrap: str, registry: str, folder: str, result: str, topic: str, stored: str, batch: str) -> None:
    warehouse = Path(folder)
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(bootstrap, registry, warehouse, topic)
    spec = replace(settings.tables[0], write="upsert", on_tombstone="delete")
    runner = SparkRunner(log_file=warehouse.parent / "spark.log")
    runner.start()
    receipts: list[tuple[float, Receipt]] = []
    memory: list[dict[str, int]] = []

    def note(receipt: Receipt) -> None:
        receipts.append((time.monotonic(), receipt))
        memory.append(resident_megabytes())

    clients = open_clients(settings, runner, on_receipt=note)

    load = table_runs(clients, [replace(spec, trigger=replace(spec.trigger, rows=min(BATCH_ROWS, int(stored))))])[0]
    while sum(receipt.counts.rows for _, receipt in receipts) < int(stored):
        load.batch()
    receipts.clear()
    memory.clear()
    log = RewriteLog()
    rewrite_files.LOG.setLevel(logging.INFO)
    rewrite_files.LOG.addHandler(log)

    began = time.monotonic()
    cost = drained(table_runs(clients, [replace(spec, trigger=replace(spec.trigger, rows=int(batch)))])[0])
    ends = [began, *(at for at, _ in receipts)]
    seconds = [end - start for start, end in pairwise(ends)]
    steps = [dict(receipt.seconds) for _, receipt in receipts]
    Updates(cost, seconds, steps, memory, log.rewrites).write(Path(result))
    runner.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
