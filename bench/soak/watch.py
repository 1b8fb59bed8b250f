"""What is looked at while the soak runs: memory of the processes, and each table by `frazil status --json`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from bench.soak.faults import Driver
from bench.soak.setting import Folder

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident megabytes at a second of the run: of the driver, its JVM, and its largest Python worker."""

    at: float
    driver: int
    jvm: int
    worker: int


@dataclass(frozen=True, slots=True)
class Look:
    """All tables at a second of the run. Metadata and data are megabytes in the warehouse, unused files included."""

    at: float
    ages: dict[str, float]
    data_files: dict[str, int]
    delete_files: dict[str, int]
    snapshots: dict[str, int]
    states: dict[str, str]
    metadata_mb: float
    data_mb: float


def memory(driver: Driver, at: float) -> Memory | None:
    """Return None while the driver is not running."""
    if driver.pid is None:
        return None
    try:
        here = psutil.Process(driver.pid)
        sizes = [(each.name(), each.memory_info().rss // MB) for each in here.children(recursive=True)]
        own = here.memory_info().rss // MB
    except psutil.Error:
        return None
    jvms = [size for name, size in sizes if name == "java"]
    workers = [size for name, size in sizes if name.startswith("python")]
    return Memory(at, own, max(jvms, default=0), max(workers, default=0))


def look(folder: Folder, at: float) -> Look | None:
    """Return None if the catalog does not answer at the moment."""
    asked = folder.run("status", "--json")
    if asked.returncode != 0 or not asked.stdout.startswith("["):
        return None
    tables = {each["table"].partition(".")[2]: each for each in json.loads(asked.stdout) if "table" in each}
    with_files = {name: each["files"] for name, each in tables.items() if each["files"] is not None}
    sizes = {"metadata": 0, "data": 0}
    for path in folder.warehouse.rglob("*"):
        if path.is_file():
            sizes["metadata" if "metadata" in path.parts else "data"] += path.stat().st_size
    return Look(
        at,
        ages={name: each["age_seconds"] for name, each in tables.items() if each["age_seconds"] is not None},
        data_files={name: each["data"] for name, each in with_files.items()},
        delete_files={name: each["deletes"] for name, each in with_files.items()},
        snapshots={name: each["snapshots"] or 0 for name, each in tables.items()},
        states={name: each["state"] for name, each in tables.items()},
        metadata_mb=sizes["metadata"] / MB,
        data_mb=sizes["data"] / MB,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values is, from 0 to 1."""
    return (
        statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]
        if len(values) > 1
        else values[0]
    )
