"""Logging of services that do not answer and tables that fail: once each, then counted."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from frazil.model.errors import FrazilError, ServiceError

LOG = logging.getLogger(__name__)


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
    """The failures of one table, attempt after attempt: the same one in a row is explained once, then counted."""

    table: str
    times: int = 0
    _last: str = ""

    def note(self, failure: FrazilError | None) -> None:
        """Log a failure; None is an attempt that succeeded."""
        self.times = self.times + 1 if failure is not None and str(failure) == self._last else 1
        self._last = "" if failure is None else str(failure)
        if failure is None:
            return
        again = {"times": self.times} if self.times > 1 else {}
        LOG.error("table_failed", extra={"table": self.table, "error": type(failure).__name__, **again})
        if self.times == 1:
            LOG.error(self._last)
