"""The progress of a table through the backlog of its topics: the numbers of a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one table at one time, in offsets. `seconds_left` is None without a rate or a lag."""

    table: str
    share: float
    per_second: float
    lag: int

    @property
    def seconds_left(self) -> float | None:
        return self.lag / self.per_second if self.per_second > 0 and self.lag else None

    def words(self) -> str:
        """Return text such as `45 %, 180,000 rows/s, lag 4,820,000, 27 s left`."""
        left = "" if self.seconds_left is None else f", {duration(self.seconds_left)} left"
        return f"{self.share:.0%}, {self.per_second:,.0f} rows/s, lag {self.lag:,}{left}"


@dataclass(slots=True)
class Backlog:
    """The backlog of one table, from the first batch of a backfill to its last one.

    `total` counts the offsets that were unread at its start or were added since, `done` the published ones, and `batch`
    those of the batch in flight, of which `read` have been read.
    """

    table: str
    began: float
    total: int = 0
    done: int = 0
    batch: int = 0
    read: Callable[[], int] | None = None

    @property
    def is_caught_up(self) -> bool:
        return self.done >= self.total

    def begin(self, *, now: float, offsets: int, lag: int, read: Callable[[], int]) -> None:
        if self.is_caught_up:
            self.began, self.done = now, 0
        self.total, self.batch, self.read = self.done + lag, offsets, read

    def ingested(self) -> None:
        self.read = None

    def publish(self, offsets: int) -> None:
        self.done += offsets
        self.drop()

    def drop(self) -> None:
        """Forget the batch in flight: it was published, failed, or is planned again."""
        self.batch, self.read = 0, None

    def progress(self, now: float) -> Progress | None:
        """Return the progress at the time `now`, or None if no batch is in flight."""
        if not self.batch:
            return None
        passed = self.done + (self.batch if self.read is None else min(self.read(), self.batch))
        seconds = max(now - self.began, 1e-9)
        return Progress(self.table, passed / max(self.total, 1), passed / seconds, max(self.total - passed, 0))


def duration(seconds: float) -> str:
    """Return text such as `26 s`, `4 min` or `3 h`, in the largest unit that gives at least 2."""
    for size, unit in ((3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"
