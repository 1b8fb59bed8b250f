"""What several folders of tests share: the real services, started once a run and stopped whatever happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobs.local.supervisor import LocalServices


def pytest_configure() -> None:
    """A terminated run unwinds like an interrupted one, so that it too stops the processes that it started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServices]:
    """A broker, a registry and a double of AWS of this run's own; topics, subjects and buckets need unique names."""
    from jobs.local.supervisor import ANY_FREE_PORTS, down, up  # noqa: PLC0415 - unit tests need none of it

    _stop_leftovers(tmp_path_factory.getbasetemp().parent)
    directory = tmp_path_factory.mktemp(f"services-{os.getpid()}", numbered=False)
    try:
        yield up(directory=directory, preferred_ports=ANY_FREE_PORTS)
    finally:
        down(directory, wipe=True)


def _stop_leftovers(runs: Path) -> None:
    """A run that was killed could not stop its services; the next one does."""
    import psutil  # noqa: PLC0415

    from jobs.local.supervisor import down  # noqa: PLC0415

    for state in runs.glob("pytest-*/services-*/state.json"):
        owner = int(state.parent.name.removeprefix("services-"))
        if not psutil.pid_exists(owner):
            down(state.parent, wipe=True)
