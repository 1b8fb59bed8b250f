"""CPU seconds by test file and folder, children included: a folder over its share is reported at the end of a run."""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

SHARES = {
    "local_cloud": 350,
    "faults": 350,
    "services": 240,
    "synth": 50,
    "table": 200,
    "unit": 470,
    "repo": 40,
    "shell": 20,
    "browser": 10,
    "services of the run": 180,
}
"""CPU seconds by folder, on 2 cores of 2026. What is over moves to `test-long`.

Servers that tests start are not in it, nor is the start of the workers: with both, 1,900 in all are some 18 minutes.
"""

SLOWEST_FIRST = (
    "local_cloud/test_deployed.py",
    "faults/test_killed.py",
    "faults/test_spark_cluster.py",
    "services/test_rotation.py",
    "faults/test_outages.py",
    "faults/test_foreign_commits.py",
    "faults/test_procedures.py",
    "services/test_readers.py",
    "local_cloud/test_exports_stack.py",
    "local_cloud/test_emr_serverless.py",
    "faults/test_killed_with_spark.py",
    "faults/test_unknown_outcomes.py",
    "local_cloud/test_made_network.py",
    "services/test_supervisor.py",
    "faults/test_replay.py",
    "faults/test_two_drivers.py",
    "local_cloud/test_doctor_inside.py",
    "services/test_installed.py",
    "repo/test_interrupted_run.py",
    "table/test_spark_beside.py",
)
"""Files that take longest, in the order in which they start; a run that ends with one of them leaves a core idle."""

YIELDS = 5
"""What `os.nice` adds to workers without the slowest file: a third of its share of a busy core."""

FOLDERS = ("local_cloud", "faults", "services", "synth", "table", "repo", "shell", "browser", "unit")
"""The order of all other files: those of the last folders are small and fill the end of a run."""

RECORD = Path(".frazil/test-costs.json")
SHOWN_FILES = 12
SHOWN_FROM_SECONDS = 60.0

Costs = dict[str, list[float]]
"""CPU seconds and wall seconds by test file."""


def in_order(items: list[pytest.Item]) -> None:
    """Sort tests by file, the slowest files first; the order within a file stays."""
    items.sort(key=lambda item: _rank(str(item.path)))


def _rank(path: str) -> tuple[int, int]:
    slow = [number for number, name in enumerate(SLOWEST_FIRST) if path.endswith(f"tests/{name}")]
    folder = [number for number, name in enumerate(FOLDERS) if f"/tests/{name}/" in path]
    return (slow[0] if slow else len(SLOWEST_FIRST), folder[0] if folder else len(FOLDERS))


class CostPlugin:
    """Measures in each process that runs tests, and reports in the one that hands them out."""

    def __init__(self, services: Path, *, is_worker: bool = False) -> None:
        self._services, self._is_worker = services, is_worker
        self._is_yielding = False
        self._costs: Costs = {}
        self._began: tuple[float, float] | None = None
        self._machine = machine_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        self._began = self._began or self._begin(item)
        answer = yield
        if nextitem is None or nextitem.path != item.path:
            cpu, wall = self._cpu_seconds() - self._began[0], time.monotonic() - self._began[1]
            self._add(item.nodeid.partition("::")[0], cpu, wall)
            self._began = None
        return answer

    def _begin(self, item: pytest.Item) -> tuple[float, float]:
        """Let the file that takes longest go first wherever there is too little CPU: the run ends with it at best."""
        if self._is_worker and not self._is_yielding and not str(item.path).endswith(f"tests/{SLOWEST_FIRST[0]}"):
            os.nice(YIELDS)
            self._is_yielding = True
        return (self._cpu_seconds(), time.monotonic())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker's costs travel to the process that started it."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["costs"] = self._costs

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, (cpu, wall) in getattr(node, "workeroutput", {}).get("costs", {}).items():
            self._add(file, cpu, wall)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(cpu for cpu, _ in self._costs.values()) < SHOWN_FROM_SECONDS:
            return
        folders = by_folder(self._costs) | {"services of the run": service_seconds(self._services)}
        meanwhile = machine_seconds() - self._machine
        terminalreporter.section("CPU seconds, children included")
        for line in report(folders, self._costs):
            terminalreporter.write_line(line)
        for line in over_their_share(folders):
            terminalreporter.write_line(line, red=True, bold=True)
        terminalreporter.write_line(f"the whole machine meanwhile, with servers of single tests: {meanwhile:.0f} s")
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps({"folders": folders, "files": self._costs}, indent=1))

    def _cpu_seconds(self) -> float:
        return cpu_seconds(apart_from=service_processes(self._services))

    def _add(self, file: str, cpu: float, wall: float) -> None:
        before = self._costs.get(file, [0.0, 0.0])
        self._costs[file] = [round(before[0] + cpu, 2), round(before[1] + wall, 2)]


def by_folder(costs: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """CPU seconds by the folder below `tests/`."""
    found: Counter[str] = Counter()
    for file, (cpu, _) in costs.items():
        parts = Path(file).parts
        found[parts[1] if parts[0] == "tests" and len(parts) > 2 else parts[0]] += cpu
    return {folder: round(seconds, 1) for folder, seconds in sorted(found.items())}


def report(folders: Mapping[str, float], files: Costs) -> Iterator[str]:
    for folder, seconds in folders.items():
        yield f"{folder:<20} {seconds:7.0f} s" + (f" of {SHARES[folder]}" if folder in SHARES else "")
    yield f"{'all':<20} {sum(folders.values()):7.0f} s of {sum(SHARES.values())}"
    yield "most expensive files (CPU seconds, wall seconds):"
    for file, (cpu, wall) in sorted(files.items(), key=lambda each: -each[1][0])[:SHOWN_FILES]:
        yield f"  {cpu:6.0f} {wall:6.0f}  {file}"


def over_their_share(folders: Mapping[str, float]) -> Iterator[str]:
    """A warning for each folder over its share. No failure: a CPU second of another machine does more, or less."""
    for folder, seconds in folders.items():
        if seconds > SHARES.get(folder, seconds):
            yield (
                f"WARNING: {folder} took {seconds:.0f} CPU seconds, and its share is {SHARES[folder]}:"
                " move combinations to `make test-long`, or make it cheaper"
            )


def cpu_seconds(*, apart_from: Collection[psutil.Process] = ()) -> float:
    """Of this process, of its children that ended, and of its descendants that live, apart from some and theirs."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = set(_with_descendants([psutil.Process()])) - {psutil.Process(), *_with_descendants(apart_from)}
    return sum(used.ru_utime + used.ru_stime for used in ended) + sum(map(_seconds_of, living))


def machine_seconds() -> float:
    """Of everything on this machine since it started."""
    used = psutil.cpu_times()
    return float(used.user + used.nice + used.system)


def service_seconds(folder: Path) -> float:
    """Of the services that the whole run shares, and of their children."""
    return round(sum(map(_seconds_of, _with_descendants(service_processes(folder)))), 1)


def service_processes(folder: Path) -> list[psutil.Process]:
    """The services that the whole run shares. One worker started them, and all use them."""
    from frazil.local.state import read_state  # noqa: PLC0415 - unit tests need none of it

    pids = [entry.process.pid for entry in read_state(folder).values() if entry.process]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def _with_descendants(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        yield process
        with suppress(psutil.Error):
            yield from process.children(recursive=True)


def _seconds_of(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system + used.children_user + used.children_system)
