"""What several folders of tests share: the real services, started once a run and stopped whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.aws_descriptions import read_descriptions_of_aws_once
from tests.costs import CostPlugin, in_order
from tests.own_processes import (
    SERVICES,
    folders_of_ended_runs,
    new_run_folder,
    stop_processes_of,
    stop_processes_of_ended_runs,
)
from tests.quick import is_left_out
from tests.sampling import LONG

if TYPE_CHECKING:
    from frazil.local.supervisor import LocalServices


SKIP_NOTHING = "FRAZIL_SKIP_NOTHING"
"""If it is set, tests that cannot run here fail instead of being skipped, so that a missing tool is noticed."""


def pytest_configure(config: pytest.Config) -> None:
    """A terminated run unwinds like an interrupted one, so that it too stops the processes that it started.

    A run in the background of a shell begins with SIGINT ignored, and so would all that it starts: tests of Ctrl-C need
    the default there.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if hands_out(config):
        os.environ[SERVICES] = str(new_run_folder())
    searches_without_a_clock()
    config.pluginmanager.register(CostPlugin(Path(os.environ[SERVICES]), is_worker=not hands_out(config)))
    read_descriptions_of_aws_once()


def searches_without_a_clock() -> None:
    """Let no search for counterexamples fail for the time that an example takes: machines are shared and stall.

    A run of `make test` tries the same examples each time, so that a change fails for what it changed. `make test-long`
    searches for new ones.
    """
    hypothesis.settings.register_profile("frazil", deadline=None, derandomize=not LONG)
    hypothesis.settings.load_profile("frazil")


def hands_out(config: pytest.Config) -> bool:
    """Whether this process hands tests to others, or is the only one."""
    return not hasattr(config, "workerinput")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if is_left_out(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(SKIP_NOTHING):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome, report.longrepr = "failed", f"{reason}, and {SKIP_NOTHING} is set"
    return report


def pytest_keyboard_interrupt() -> None:
    """Another Ctrl-C does not keep the servers from being stopped."""
    ignore_interruptions()


def pytest_unconfigure(config: pytest.Config) -> None:
    if hands_out(config):
        ignore_interruptions()
        own = Path(os.environ[SERVICES])
        stop_processes_of(own)
        stop_processes_of_ended_runs()
        for folder in (own, *folders_of_ended_runs()):
            shutil.rmtree(folder, ignore_errors=True)


def ignore_interruptions() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def services() -> LocalServices:
    """A broker, a registry and a double of AWS of this run's own; topics, subjects and buckets need unique names."""
    from frazil.local.supervisor import ANY_FREE_PORTS, up  # noqa: PLC0415 - unit tests need none of it

    _record_classes_once(Path(os.environ[SERVICES]))
    return up(directory=Path(os.environ[SERVICES]), preferred_ports=ANY_FREE_PORTS)


@pytest.fixture(scope="session")
def rest_catalog_url() -> str:
    """The address of a REST catalog of this run's own; databases need unique names."""
    from frazil.local.supervisor import ANY_FREE_PORTS, up  # noqa: PLC0415 - few tests need it

    started = up(("rest",), Path(os.environ[SERVICES]), preferred_ports=ANY_FREE_PORTS)
    assert started.rest_catalog_url
    return started.rest_catalog_url


def _record_classes_once(folder: Path) -> None:
    """Start and stop the services if no archive of their classes exists: dozens of later starts use it."""
    from frazil.local.cache import cache_folder, exclusively  # noqa: PLC0415
    from frazil.local.supervisor import ANY_FREE_PORTS, down, up  # noqa: PLC0415

    with exclusively(folder / "recording.lock"):
        if not list((cache_folder() / "class-data").glob("*.jsa")):
            up(("broker", "registry"), folder / "recording", preferred_ports=ANY_FREE_PORTS)
            down(folder / "recording", wipe=True)
