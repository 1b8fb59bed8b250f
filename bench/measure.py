"""What a subject of a benchmark costs: wall time, CPU of its whole process tree, memory of its processes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import psutil

Result = TypeVar("Result")
SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Cost:
    """Of some work: rows, wall seconds, CPU seconds of the process, the JVM and the Python workers together."""

    subject: str
    rows: int
    wall_seconds: float
    cpu_seconds: float
    jvm_megabytes: int
    worker_megabytes: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.wall_seconds

    @property
    def rows_per_cpu_second(self) -> float:
        return self.rows / self.cpu_seconds


def write_costs(path: Path, costs: Sequence[Cost]) -> None:
    path.write_text(json.dumps([asdict(cost) for cost in costs]))


def read_costs(path: Path) -> list[Cost]:
    return [Cost(**each) for each in json.loads(path.read_text())]


def cpu_seconds() -> float:
    """Of this process and all below it, those already gone included."""
    here = psutil.Process()
    own = here.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in here.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return float(total)


def resident_megabytes() -> dict[str, int]:
    """Return the resident sizes, now, of this process, of its JVM and of its largest Python worker."""
    here = psutil.Process()
    found = {"driver": here.memory_info().rss >> 20, "JVM": 0, "worker": 0}
    for child in here.children(recursive=True):
        try:
            size, name = child.memory_info().rss >> 20, child.name()
        except psutil.Error:
            continue
        kind = "JVM" if name == "java" else "worker"
        if kind == "JVM" or name.startswith("python"):
            found[kind] = max(found[kind], size)
    return found


class MemoryWatch:
    """The largest resident size of the JVM and of any one Python worker, sampled."""

    def __init__(self) -> None:
        self.jvm = 0
        self.worker = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        here = psutil.Process(os.getpid())
        while not self._done.wait(SAMPLE_SECONDS):
            for child in here.children(recursive=True):
                try:
                    size, name = child.memory_info().rss >> 20, child.name()
                except psutil.Error:
                    continue
                if name == "java":
                    self.jvm = max(self.jvm, size)
                elif name.startswith("python"):  # not what a JVM forks for a moment
                    self.worker = max(self.worker, size)


def measured(subject: str, work: Callable[[], int]) -> Cost:
    """Carry out work that returns how many rows it made."""
    with MemoryWatch() as memory:
        cpu, wall = cpu_seconds(), time.monotonic()
        rows = work()
        wall, cpu = time.monotonic() - wall, cpu_seconds() - cpu
    return Cost(subject, rows, wall, cpu, memory.jvm, memory.worker)
