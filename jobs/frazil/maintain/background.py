"""Run tasks in the background, without delaying batches. A task that is unfinished at process exit is abandoned."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger(__name__)

AT_ONCE = 2
FINISH_SECONDS = 10.0


class Background:
    """Runs at most `AT_ONCE` tasks at a time, each in a daemon thread."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._threads: set[threading.Thread] = set()

    def start(self, task: Callable[[], None], *, before: Callable[[], bool]) -> bool:
        """Run `before` if a slot is free, and start `task` if that returns true; return whether `task` was started."""
        if not self._slots.acquire(blocking=False):
            return False
        started = False
        try:
            if before():
                thread = threading.Thread(target=self._carry_out, args=(task,), daemon=True, name="frazil-maintenance")
                self._threads = {each for each in self._threads if each.is_alive()} | {thread}
                thread.start()
                started = True
        finally:
            if not started:
                self._slots.release()
        return started

    def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """Wait for running tasks, at most this many seconds."""
        until = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(until - time.monotonic(), 0))

    def _carry_out(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            LOG.exception("maintenance_failed")
        finally:
            self._slots.release()
