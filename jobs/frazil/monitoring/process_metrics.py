"""Metrics of one process: what its batches took, step by step."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from frazil.model.receipt import Receipt
from frazil.monitoring.prometheus import Metric, Sample


class ProcessMetrics:
    """Counts the batches that this process publishes. Safe to use from several threads."""

    def __init__(self, *, version: str, started: datetime) -> None:
        self._version = version
        self._started = started
        self._batches: Counter[str] = Counter()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._lock = threading.Lock()

    def count(self, receipt: Receipt) -> None:
        with self._lock:
            self._batches[receipt.table] += 1
            for step, seconds in receipt.seconds.items():
                self._seconds[receipt.table, step] += seconds

    def metrics(self) -> Iterator[Metric]:
        with self._lock:
            batches, seconds = dict(self._batches), dict(self._seconds)
        build = (Sample({"version": self._version}, 1),)
        yield Metric("frazil_build_info", "gauge", "1, with the version of Frazil.", build)
        started = (Sample({}, self._started.timestamp()),)
        yield Metric("frazil_process_start_time_seconds", "gauge", "Start of the process since 1970.", started)
        yield Metric(
            "frazil_process_batches_total",
            "counter",
            "Batches that this process published.",
            tuple(Sample({"table": table}, count) for table, count in batches.items()),
        )
        yield Metric(
            "frazil_process_step_seconds_total",
            "counter",
            "Time that the steps of this process's batches took.",
            tuple(Sample({"table": table, "step": step}, round(took, 4)) for (table, step), took in seconds.items()),
        )
