"""Calls that wait for something outside, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """What each gives, in order. The first that raises ends it, and so does Ctrl-C: neither waits for the others."""
    pool = ThreadPoolExecutor(max(1, len(calls)))
    try:
        begun = [pool.submit(call) for call in calls]
        return [each.result() for each in begun]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
