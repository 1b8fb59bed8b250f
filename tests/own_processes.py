"""The processes of a test run: each one, and each server that it started, has the run's folder in its environment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

SERVICES = "FRAZIL_TEST_SERVICES"
"""The folder of a run's services. Whatever the run starts inherits the variable."""

PREFIX = "frazil-services-"
STOP_SECONDS = 10.0


def new_run_folder() -> Path:
    """A folder whose name says which process the run belongs to."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def stop_processes_of(folder: Path) -> list[int]:
    """Stop all that the run with this folder started, and return their ids; this process and its parents stay."""
    return _stop(_processes(lambda named: named == str(folder)))


def stop_processes_of_ended_runs() -> list[int]:
    """Stop what runs left behind that were killed themselves."""
    return _stop(_processes(lambda named: not _is_running(Path(named))))


def folders_of_ended_runs() -> list[Path]:
    return [folder for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*") if not _is_running(folder)]


def _is_running(folder: Path) -> bool:
    owner = folder.name.removeprefix(PREFIX).partition("-")[0]
    return not folder.name.startswith(PREFIX) or not owner.isdigit() or psutil.pid_exists(int(owner))


def _processes(belongs: Callable[[str], bool]) -> Iterator[psutil.Process]:
    me = psutil.Process()
    kept = {me.pid, *(parent.pid for parent in me.parents())}
    for process in psutil.process_iter():
        try:
            named = process.environ().get(SERVICES)
        except (psutil.Error, OSError):
            continue
        if named is not None and process.pid not in kept and belongs(named):
            yield process


def _stop(found: Iterator[psutil.Process]) -> list[int]:
    """Ask each to stop, and kill what still runs afterwards."""
    asked = list(found)
    for process in asked:
        _quietly(process.terminate)
    _, alive = psutil.wait_procs(asked, timeout=STOP_SECONDS)
    for process in alive:
        _quietly(process.kill)
    psutil.wait_procs(alive, timeout=STOP_SECONDS)
    return [process.pid for process in asked]


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except psutil.Error:
        return
