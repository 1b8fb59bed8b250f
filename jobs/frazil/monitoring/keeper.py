"""Keep the status page beside the tables up to date, in a thread that no batch waits for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from frazil.model.errors import FrazilError

LOG = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
"""The page is written so long after the first batch, so that a run that ends sooner writes it once."""

LEAST_SECONDS = 60.0
MOST_SHARE = 0.05
"""The share of the time in which a page may be written: with many tables, it is written less often than each minute."""

FINISH_SECONDS = 10.0


class PageKeeper:
    """Calls `write` after batches, at most once a minute. Failures are logged, once for each text."""

    def __init__(
        self, write: Callable[[], None], *, always: bool = False, first_seconds: float = FIRST_SECONDS
    ) -> None:
        self._write = write
        self._always = always
        self._pause = first_seconds
        self._outdated = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged: set[str] = set()
        self._is_abandoned = False

    def batch_published(self) -> None:
        """Note that the page is out of date."""
        self._outdated.set()
        self.start()

    def start(self) -> None:
        """Start the thread if it does not run."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, daemon=True, name="frazil-status-page")
            self._thread.start()

    def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """Write the page if it is out of date, and wait for it at most so many seconds."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(seconds)
            self._is_abandoned = self._thread.is_alive()

    def _keep(self) -> None:
        while not self._ending.wait(self._pause):
            if self._outdated.is_set() or self._always:
                self._pause = max(LEAST_SECONDS, self._written_in() / MOST_SHARE)
        if self._outdated.is_set():
            self._written_in()

    def _written_in(self) -> float:
        """Write the page, and return how many seconds that took."""
        self._outdated.clear()
        began = time.monotonic()
        try:
            self._write()
        except FrazilError as failure:
            self._log(failure)
        except Exception:
            if not self._is_abandoned:  # at its end, Python refuses new threads
                LOG.exception("status_page_failed")
        return time.monotonic() - began

    def _log(self, failure: FrazilError) -> None:
        if failure.what not in self._logged:
            self._logged.add(failure.what)
            LOG.warning("status_page_failed", extra={"problem": failure.what, "hint": failure.hint})
