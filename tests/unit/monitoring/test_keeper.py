"""The page beside the tables: written after batches, rarely, and without an effect on them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from frazil.model.errors import CatalogError
from frazil.monitoring import keeper
from frazil.monitoring.keeper import PageKeeper


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_run_that_ends_soon_writes_the_page_once_after_all_its_batches() -> None:
    written: list[str] = []
    batches: list[str] = []
    kept = PageKeeper(lambda: written.append(f"page of {len(batches)} batches"))

    for number in range(3):
        batches.append(str(number))
        kept.batch_published()
    kept.finish()

    assert written == ["page of 3 batches"]


def test_a_run_without_a_batch_writes_no_page() -> None:
    written: list[str] = []

    PageKeeper(lambda: written.append("page")).finish()

    assert written == []


def test_after_a_page_the_next_one_waits_a_minute_but_for_the_last() -> None:
    written: list[float] = []
    kept = PageKeeper(lambda: written.append(time.monotonic()), first_seconds=0.01)
    kept.batch_published()
    until(lambda: written)
    kept.batch_published()
    time.sleep(0.1)

    before_the_end = len(written)
    kept.finish()

    assert (before_the_end, len(written)) == (1, 2)


def test_a_page_that_takes_long_is_written_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 6.0])
    monkeypatch.setattr(keeper.time, "monotonic", lambda: next(clock))
    kept = PageKeeper(lambda: None)

    assert max(keeper.LEAST_SECONDS, kept._written_in() / keeper.MOST_SHARE) == 120.0


def test_a_failure_is_logged_once_and_raised_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise CatalogError("could not write the status page", hint="check permissions")

    kept = PageKeeper(fail, first_seconds=0.0)
    with caplog.at_level(logging.WARNING, "frazil"):
        for _ in range(3):
            kept._written_in()
        kept.batch_published()
        kept.finish()

    assert [each.message for each in caplog.records] == ["status_page_failed"]
    assert caplog.records[0].hint == "check permissions"  # type: ignore[attr-defined]


def test_a_defect_is_logged_with_its_trace_and_raised_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("a defect")

    kept = PageKeeper(fail)
    kept.batch_published()
    kept.finish()

    assert caplog.records[0].exc_info is not None


def test_a_page_that_never_ends_does_not_keep_the_process() -> None:
    never = threading.Event()
    kept = PageKeeper(lambda: never.wait(60) and None)
    kept.batch_published()

    began = time.monotonic()
    kept.finish(seconds=0.05)
    never.set()

    assert time.monotonic() - began < 5
