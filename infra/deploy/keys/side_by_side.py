"""Run I/O-bound calls concurrently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results in order. The first exception, or Ctrl-C, is raised without waiting for the other calls."""
    pool = ThreadPoolExecutor(max(1, len(calls)))
    try:
        begun = [pool.submit(call) for call in calls]
        return [each.result() for each in begun]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
