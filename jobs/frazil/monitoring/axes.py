"""The axes of plots: round numbers, units that people read, and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

SPANS = tuple(timedelta(minutes=minutes) for minutes in (15, 30, 60, 180, 360, 720, 1_440, 2_880, 4_320, 7_200, 10_080))
"""The times that a plot may show; the longest is a week."""

STEPS = tuple(timedelta(minutes=minutes) for minutes in (5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880))
MOST_TIMES = 5


@dataclass(frozen=True, slots=True)
class Window:
    """The time that plots show, `[start, end]`."""

    start: datetime
    end: datetime

    @classmethod
    def ending(cls, end: datetime, *, begins: datetime | None) -> Window:
        """Return the shortest window that has everything since `begins`, or the longest one."""
        needed = timedelta(0) if begins is None else end - begins
        return cls(end - next((span for span in SPANS if span >= needed), SPANS[-1]), end)

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def part(self, at: datetime) -> float:
        """Return where a time is, from 0 at the start to 1 at the end."""
        return (at - self.start).total_seconds() / self.seconds

    def at(self, part: float) -> datetime:
        return self.start + timedelta(seconds=part * self.seconds)

    def ticks(self) -> Sequence[tuple[float, str]]:
        """Return at most six places with their times in UTC: `12:30`, or `31 Jan` where the ticks are days."""
        step = next((each for each in STEPS if self.seconds / each.total_seconds() <= MOST_TIMES), STEPS[-1])
        midnight = self.start.replace(hour=0, minute=0, second=0, microsecond=0)
        first = math.ceil((self.start - midnight) / step)
        times = (midnight + (first + n) * step for n in range(MOST_TIMES + 2))
        is_days = step >= timedelta(days=1)
        return [(self.part(at), f"{at:%d %b}" if is_days else f"{at:%H:%M}") for at in times if at <= self.end]

    @property
    def words(self) -> str:
        """The length of the window, such as `the last 6 h`."""
        minutes = round(self.seconds / 60)
        for size, unit in ((1_440, "days"), (60, "h")):
            if minutes >= 2 * size or (minutes == size and unit == "h"):
                return f"the last {minutes // size} {unit}"
        return f"the last {minutes // 60} h" if minutes >= 60 else f"the last {minutes} min"


@dataclass(frozen=True, slots=True)
class Scale:
    """A vertical axis from 0 to `top`, in `unit`, of which each has `size` of what is measured."""

    top: float
    step: float
    size: float = 1.0
    unit: str = ""

    def ticks(self) -> Sequence[tuple[float, str]]:
        """Return the places from 0 to 1, with their numbers."""
        count = round(self.top / self.step)
        return [(n / count, short(n * self.step)) for n in range(count + 1)]

    def part(self, value: float) -> float:
        return min(value / self.size / self.top, 1.0)


def scale_of(greatest: float, *, whole: bool = False) -> Scale:
    """Return the scale of plain numbers; with `whole`, ticks are whole numbers."""
    step = _round_step(greatest / 3)
    return _scale(greatest, max(step, 1.0) if whole else step)


def scale_of_seconds(greatest: float) -> Scale:
    """Return the scale of durations, in seconds, minutes, hours or days."""
    size, unit = next(((s, u) for s, u in ((86_400, "d"), (3_600, "h"), (60, "min")) if greatest >= 2 * s), (1, "s"))
    found = _scale(greatest / size, _round_step(greatest / size / 3))
    return Scale(found.top, found.step, size, unit)


def _scale(greatest: float, step: float) -> Scale:
    return Scale(max(math.ceil(greatest / step - 1e-9), 1) * step, step)


def _round_step(raw: float) -> float:
    if raw <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    return next(part * size for part in (1, 2, 5, 10) if part * size >= raw * (1 - 1e-9))


def short(value: float) -> str:
    """Return a number with a suffix for thousands: `950`, `1.5k`, `20M`."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def size_words(count: int) -> str:
    """Return bytes in decimal units: `64 MB`, `1.5 GB`."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
