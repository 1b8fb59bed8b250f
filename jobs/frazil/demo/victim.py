"""The run that the demo kills: `frazil materialize --once` that says when it is about to publish a batch, and waits.

Usage: python -m frazil.demo.victim CONFIG BATCH
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

from frazil.adapters.spark.runner import SparkRunner
from frazil.cli.clients import open_clients, table_runs
from frazil.cli.options import settings_from
from frazil.cli.receipt_lines import lines
from frazil.materialize.clients import Observer, Step
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.receipt import Receipt

STAGED = "STAGED"
"""The line at which the demo kills the job: the batch is staged, and none of its rows is visible."""

WAITS_SECONDS = 600


def main(config: str, batch: str) -> None:
    settings = settings_from(Path(config))
    runner = SparkRunner(log_file=Path(config).parent / "spark.log")
    clients = open_clients(settings, runner, on_receipt=_print, observe=waiting_before_publish(int(batch)))
    run_once(table_runs(clients, settings.tables), Stopping())


def waiting_before_publish(batch: int) -> Observer:
    """An observer that never lets the given batch of this process be published."""
    published = 0

    def observe(when: Literal["before", "after"], step: Step) -> None:
        nonlocal published
        if (when, step) == ("after", "publish"):
            published += 1
        if (when, step) == ("before", "publish") and published == batch - 1:
            print(STAGED, flush=True)
            time.sleep(WAITS_SECONDS)

    return observe


def _print(receipt: Receipt) -> None:
    print("\n".join(lines(receipt)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
