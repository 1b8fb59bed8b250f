"""Logging of services that do not answer and tables that fail: once each, then counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from frazil.model.errors import FrazilError, ServiceError

LOG = logging.getLogger(__name__)

QUIET_SECONDS = 600.0
"""Between two lines of one failure that lasts. The alarm on failing tables needs a line every 20 minutes."""


@dataclass(slots=True)
class Waits:
    """The waits of all tables of a process, counted by the kind of service that they wait for."""

    _counts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, failure: ServiceError, *, seconds: float) -> None:
        """Count one wait of `seconds`, and say it if no other table waits for the same kind of service."""
        kind = type(failure).__name__
        with self._lock:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if self._counts[kind] == 1:
                LOG.warning("waiting", extra={"seconds": seconds, "error": failure.what})

    def end(self, kind: str, *, answered: bool) -> None:
        """Say how often this kind of service was waited for, unless another table has said it."""
        with self._lock:
            times = self._counts.pop(kind, 0)
        if times > 1 or (times and answered):
            LOG.warning("waited", extra={"error": kind, "times": times, "answered": answered})


@dataclass(slots=True)
class Failures:
    """The failures of one table, attempt after attempt.

    The same one in a row is explained once, and a pause not again after the failure that caused it. Then one line with
    its count is logged every `QUIET_SECONDS` at most.
    """

    table: str
    clock: Callable[[], float] = time.monotonic
    times: int = 0
    _last: FrazilError | None = None
    _logged_at: float = 0.0

    def note(self, failure: FrazilError | None) -> None:
        """Log a failure; None is an attempt that succeeded."""
        before, self._last = self._last, failure
        if failure is None:
            if before is not None:
                self._log(logging.INFO, "table_recovered", before)
            self.times = 0
        elif before is not None and str(before) == str(failure):
            self.times += 1
            if self.clock() - self._logged_at >= QUIET_SECONDS:
                self._log(logging.ERROR, "table_failed", failure)
        else:
            self.times = 1
            self._log(logging.ERROR, "table_failed", failure)
            if before is None or before.what not in failure.what:
                LOG.error(str(failure))

    def _log(self, level: int, event: str, failure: FrazilError) -> None:
        again = {"times": self.times} if self.times > 1 else {}
        LOG.log(level, event, extra={"table": self.table, "error": type(failure).__name__, **again})
        self._logged_at = self.clock()
