"""Expire snapshots between the batches of a table: one commit, then file deletion in the background."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.delta.needed import files_left, files_needed
from frazil.maintain.background import Background
from frazil.maintain.expire import enough, expiry_of, is_due
from frazil.model.delta import DELTA_TAG
from frazil.model.errors import FrazilError
from frazil.model.expiry import LEAST_AGE, Cleaned, Expiry
from frazil.model.snapshot import TableView
from frazil.model.spec import KeepSnapshots
from frazil.ports import DeltaLogs, Lake

LOOK_SECONDS = 600.0

SEARCH_SECONDS = 86_400.0
"""Between two searches of a process for files that the Delta log has left, each of which lists the data files."""

LOG = logging.getLogger(__name__)


def elapsed_seconds() -> float:
    """Return the seconds of a monotonic clock, which on Linux also runs while the machine is suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class _FirstSeen:
    """The newest snapshot's time, and the local time, when a process first saw a table; `at` is `elapsed_seconds()`."""

    newest: datetime
    now: datetime
    at: float


@dataclass(slots=True)
class Expiring:
    """Expires the snapshots of one table for one process. An error here does not fail a batch.

    The local clock is trusted for snapshots that this process committed, and for the time since it first saw the table.
    The ages of snapshots and daily tags that it found are measured from the newest of these snapshots, so a clock that
    is ahead removes none of them too early.
    """

    keep: KeepSnapshots
    checkpoint: str
    clock: Callable[[], float] = elapsed_seconds
    _first_seen: _FirstSeen | None = None
    _looked_at: float = -math.inf
    _searched_at: float = -math.inf
    _batches: int = 0

    def look(self, view: TableView, *, now: datetime) -> None:
        """Note the time of the newest snapshot, before this process commits one of its own."""
        if self._first_seen is None:
            newest = max((snapshot.committed_at for snapshot in view.snapshots.values()), default=now)
            self._first_seen = _FirstSeen(newest, now, self.clock())

    def between_batches(
        self, lake: Lake, logs: Callable[[], DeltaLogs], view: TableView, background: Background, *, now: datetime
    ) -> bool:
        """Expire snapshots if due; return whether any expired. An outdated view is enough: it is read again if due."""
        try:
            return self._expire(lake, logs, view, background, now)
        except FrazilError as failed:
            LOG.warning("expiry_failed", extra={"table": view.identifier, "problem": str(failed)})
        except Exception:
            LOG.exception("expiry_failed", extra={"table": view.identifier})
        return False

    def _expire(
        self, lake: Lake, logs: Callable[[], DeltaLogs], view: TableView, background: Background, now: datetime
    ) -> bool:
        tag_time = self._tag_time(view, now)
        now = self._no_later_than(view, now)
        if not self._is_time() or not self._is_due(self._expiry_of(view, now, tag_time), view, now):
            return False
        fresh = lake.load(view.identifier)
        if fresh is None:
            return False
        expiry = self._expiry_of(fresh, now, tag_time)
        return self._is_due(expiry, fresh, now) and self._committed(lake, logs, fresh, expiry, background, now)

    def asked(
        self, lake: Lake, logs: Callable[[], DeltaLogs], view: TableView, background: Background, *, now: datetime
    ) -> int:
        """Expire what may go, however little; return the number of snapshots. Raises FrazilError."""
        expiry = self.possible(view, now=now)
        now = self._no_later_than(view, now)
        return len(expiry.snapshots) if expiry and self._committed(lake, logs, view, expiry, background, now) else 0

    def possible(self, view: TableView, *, now: datetime) -> Expiry:
        """Return what may go."""
        return self._expiry_of(view, self._no_later_than(view, now), self._tag_time(view, now))

    def _committed(
        self,
        lake: Lake,
        logs: Callable[[], DeltaLogs],
        view: TableView,
        expiry: Expiry,
        background: Background,
        now: datetime,
    ) -> bool:
        """Commit, and begin to delete files; return false if other deletions keep every thread busy."""

        def committed() -> bool:
            lake.expire(view, expiry)
            LOG.info("expired", extra=_log_fields(view, expiry))
            return True

        return background.start(lambda: self._clean(lake, logs, view, expiry, now), before=committed)

    def _clean(
        self, lake: Lake, logs: Callable[[], DeltaLogs], before: TableView, expiry: Expiry, now: datetime
    ) -> None:
        """Delete files, also those that earlier expiries left to readers of Delta, if the last search is a day ago."""
        since, began = now - self.keep.age, self.clock()
        is_due = DELTA_TAG in before.tags and began - self._searched_at >= SEARCH_SECONDS
        self._searched_at = began if is_due else self._searched_at
        clean(lake, logs, before, expiry, since, search=min(since, now - LEAST_AGE) if is_due else None)

    def _expiry_of(self, view: TableView, now: datetime, tag_time: datetime) -> Expiry:
        return expiry_of(view, self.keep, now=now, checkpoint=self.checkpoint, tag_time=tag_time)

    def _is_due(self, expiry: Expiry, view: TableView, now: datetime) -> bool:
        return bool(expiry) and is_due(expiry, view, self.keep, now=now)

    def _is_time(self) -> bool:
        """Return whether to check. A check visits every snapshot, so it runs only every few batches or minutes."""
        self._batches += 1
        if self._batches < enough(self.keep) and self.clock() - self._looked_at < LOOK_SECONDS:
            return False
        self._batches, self._looked_at = 0, self.clock()
        return True

    def _no_later_than(self, view: TableView, now: datetime) -> datetime:
        """Return the time from which the ages of snapshots are measured: the local time or an earlier one.

        Until the process has run for as long as snapshots are kept, only snapshots that it found can be too old; the
        time then is that of the newest of them plus the elapsed time. Later only snapshots with the local clock's time
        are left.
        """
        return self.trusted_after(self.keep.age, view, now)

    def _tag_time(self, view: TableView, now: datetime) -> datetime:
        """Return the time from which the ages of daily tags are measured, so that found tags stay for `daily` days."""
        return self.trusted_after(max(self.keep.age, timedelta(days=self.keep.daily + 1)), view, now)

    def trusted_after(self, kept: timedelta, view: TableView, now: datetime) -> datetime:
        """Return the time from which ages are measured of what is kept for so long: `now`, or an earlier time."""
        self.look(view, now=now)
        assert self._first_seen is not None  # noqa: S101 - noted by look
        passed = timedelta(seconds=self.clock() - self._first_seen.at)
        start = self._first_seen.newest if passed < kept else self._first_seen.now
        return min(now, start + passed)


def clean(
    lake: Lake,
    logs: Callable[[], DeltaLogs],
    before: TableView,
    expiry: Expiry,
    since: datetime,
    *,
    search: datetime | None,
) -> None:
    """Delete files that only the expired snapshots referenced. Files that cannot be deleted stay as orphans.

    Files that a Delta version needs which was the newest at `since` or later stay. With `search`, files go that no
    snapshot has and that no version needs of that time or later: they were needed when their snapshots expired, or the
    process died before it had deleted them.
    """
    location = before.location
    cleaned = lake.delete_unreachable(
        before,
        expiry.snapshots,
        named_elsewhere=lambda: files_needed(logs(), location, since=since),
        left_elsewhere=lambda: frozenset() if search is None else files_left(logs(), location, since=search),
    )
    _tell(before.identifier, cleaned)


def _tell(table: str, cleaned: Cleaned) -> None:
    LOG.info("expired_files_deleted", extra={"table": table, "files": cleaned.deleted})
    if cleaned.left:
        problems = "; ".join(cleaned.problems)
        LOG.warning("expired_files_left", extra={"table": table, "files": cleaned.left, "problem": problems})


def _log_fields(view: TableView, expiry: Expiry) -> dict[str, object]:
    return {"table": view.identifier, "snapshots": len(expiry.snapshots), "tags": len(expiry.put)}
