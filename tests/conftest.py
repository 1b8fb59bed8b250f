"""What several folders of tests share: the real services, started once a run and stopped whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobs.local.supervisor import LocalServices


SKIP_NOTHING = "FRAZIL_SKIP_NOTHING"
"""Where it is set, a test that cannot run here has failed: whoever wants all of them hears of a missing tool."""

SERVICES = "FRAZIL_TEST_SERVICES"
"""The folder of this run's services, for all of its processes."""


def pytest_configure(config: pytest.Config) -> None:
    """A terminated run unwinds like an interrupted one, so that it too stops the processes that it started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # the process that hands tests to others, or the only one
        os.environ[SERVICES] = tempfile.mkdtemp(prefix=f"frazil-services-{os.getpid()}-")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(SKIP_NOTHING):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome, report.longrepr = "failed", f"{reason}, and {SKIP_NOTHING} is set"
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _remove(Path(os.environ[SERVICES]))
        _remove_leftovers()


@pytest.fixture(scope="session")
def services() -> LocalServices:
    """A broker, a registry and a double of AWS of this run's own; topics, subjects and buckets need unique names."""
    from jobs.local.supervisor import ANY_FREE_PORTS, up  # noqa: PLC0415 - unit tests need none of it

    return up(directory=Path(os.environ[SERVICES]), preferred_ports=ANY_FREE_PORTS)


def _remove_leftovers() -> None:
    """A run that was killed could not stop its services; the next one does."""
    import psutil  # noqa: PLC0415

    for folder in Path(tempfile.gettempdir()).glob("frazil-services-*-*"):
        if not psutil.pid_exists(int(folder.name.split("-")[2])):
            _remove(folder)


def _remove(folder: Path) -> None:
    if (folder / "state.json").exists():
        from jobs.local.supervisor import down  # noqa: PLC0415

        down(folder, wipe=True)
    shutil.rmtree(folder, ignore_errors=True)
