"""Timestamps as text, in numpy: Arrow's own conversion takes eight times as long."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Texts = npt.NDArray[Any]

DAY = 86_400_000_000
"""Microseconds."""

SHORTER = {86_400: 3600, 3600: 1}
"""Seconds in which clocks are looked at again, by those of a longer period in which one was changed."""

CYCLE_DAYS = 146_097
"""The 400 years after which the Gregorian calendar repeats itself, weekdays included."""
CYCLE_SECONDS = CYCLE_DAYS * 86_400
SAFE_SECONDS = 3 * CYCLE_SECONDS
"""1,200 years, within which Python can compute before and after 1970."""

EPOCH = date(1970, 1, 1).toordinal()
FIRST, LAST = (date.min.toordinal() - EPOCH) * DAY, (date.max.toordinal() + 1 - EPOCH) * DAY
"""The microseconds of the years 1 to 9999, the end exclusive."""

UTC_PATTERN = b"0000-00-00T00:00:00.000000Z"
WALL_CLOCK_PATTERN = b"0000-00-00 00:00:00.000"
MOST_DAYS = 100_000
"""Dates are looked up in a table of all days between the first and the last one, unless it would have more."""

_THOUSANDTHS = np.array([f"{n:03}".encode() for n in range(1000)], "S3")


@lru_cache(maxsize=1)
def _clocks() -> Texts:
    """Return the time of each second of a day."""
    times = (f"{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}".encode() for n in range(86_400))
    return np.fromiter(times, "S8", 86_400)


@lru_cache(maxsize=8)
def _dates(first: int, last: int) -> Texts:
    """Return the dates of all days from the first to the last, as days since 1970."""
    days = np.arange(first, last + 1).astype("datetime64[D]")
    return np.datetime_as_string(days).astype("S10")


def timestamps_as_text(column: pa.Array, wall_clock: ZoneInfo | None) -> pa.Array:
    """Return text of a column of timestamps, those in nanoseconds cut to microseconds.

    It is RFC 3339 with `Z` for a column with a time zone and without it for another one; with `wall_clock`, the time of
    a clock in this zone, cut to milliseconds. Years that do not have four digits have as many as they need, and a sign.
    """
    in_zone = column.type.tz is not None
    pattern = WALL_CLOCK_PATTERN if wall_clock is not None else UTC_PATTERN if in_zone else UTC_PATTERN[:-1]
    micros = np.asarray(pc.fill_null(column.cast(pa.int64()), 0)) // (1000 if column.type.unit == "ns" else 1)
    ahead = _offsets(micros, wall_clock) if wall_clock is not None and in_zone else np.zeros(len(micros), np.int64)
    if len(micros) and (micros.min() < FIRST + DAY or micros.max() >= LAST - DAY):
        times = zip(micros.tolist(), ahead.tolist(), column.is_valid().to_pylist(), strict=True)
        texts = [_of_any_year(at + offset, pattern) if is_valid else None for at, offset, is_valid in times]
        return pa.array(texts, pa.string())
    return _as_array(_digits(micros + ahead, pattern), column)


def _offsets(micros: Numbers, zone: ZoneInfo, period: int = 86_400) -> Numbers:
    """Return by how many microseconds clocks in a zone are ahead of UTC, looked up for each period of some seconds.

    Arrow reads the zones of the operating system alone, which may have none, and knows no summer time after 2037.
    """
    periods, places = np.unique(micros // (period * 1_000_000), return_inverse=True)
    begin, end = (
        np.array([_offset(zone, number * period + second) for number in periods.tolist()], np.int64)
        for second in (0, period - 1)
    )
    found = begin[places]
    changed = np.flatnonzero((begin != end)[places])
    if len(changed):
        found[changed] = _offsets(micros[changed], zone, SHORTER[period])
    return found


@lru_cache(maxsize=20_000)
def _offset(zone: ZoneInfo, second: int) -> int:
    """Return by how many microseconds clocks are ahead at a second since 1970.

    Python has no time beyond the years 1 and 9999. The calendar, and with it the last rule of a zone, repeats itself
    every 400 years; before 1800, no clock was changed.
    """
    low, high = -SAFE_SECONDS, SAFE_SECONDS
    if second < low:
        second = low + (second - low) % CYCLE_SECONDS
    elif second >= high:
        second = high - CYCLE_SECONDS + (second - high) % CYCLE_SECONDS
    ahead = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return 0 if ahead is None else ahead // timedelta(microseconds=1)


def _digits(micros: Numbers, pattern: bytes) -> Texts:
    """Return the texts, each as a record of its parts."""
    days = micros // DAY
    of_day = micros - days * DAY
    seconds = of_day // 1_000_000
    fraction = (of_day - seconds * 1_000_000).astype(np.int32)
    thousandths = fraction // 1000
    parts = [("date", "S10"), ("between", "S1"), ("clock", "S8"), ("point", "S1"), ("milli", "S3")]
    ends = [("micro", "S3"), ("zone", "S1")][: max(len(pattern) - 23, 0) // 3 + pattern.endswith(b"Z")]
    text = np.empty(len(micros), parts + ends)
    text["date"] = _dates_of(days)
    text["between"], text["point"] = pattern[10:11], b"."
    text["clock"] = _clocks()[seconds]
    text["milli"] = _THOUSANDTHS[thousandths]
    if ends:
        text["micro"] = _THOUSANDTHS[fraction - thousandths * 1000]
    if len(ends) == 2:
        text["zone"] = b"Z"
    return text


def _dates_of(days: Numbers) -> Texts:
    if not len(days):
        return np.empty(0, "S10")
    first, last = int(days.min()), int(days.max())
    if last - first > MOST_DAYS:
        return np.datetime_as_string(days.astype("datetime64[D]")).astype("S10")
    return _dates(first, last)[days - first]


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970, in the Gregorian calendar.

    See "chrono-Compatible Low-Level Date Algorithms" by Howard Hinnant: eras of 400 years that begin in March.
    """
    era, of_era = divmod(days + 719_468, CYCLE_DAYS)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year_of_era + era * 400 + (month >= 10), month + (3 if month < 10 else -9), day


def date_of_any_year(days: int) -> str:
    """Return a date in ISO 8601, with a sign if its year has more or less than four digits."""
    year, month, day = _civil(days)
    return f"{f'{year:04}' if 0 <= year <= 9999 else f'{year:+05}'}-{month:02}-{day:02}"


def _of_any_year(micros: int, pattern: bytes) -> str:
    days, rest = divmod(micros, DAY)
    return date_of_any_year(days) + _digits(np.array([rest], np.int64), pattern).tobytes().decode()[10:]


def _as_array(text: Texts, column: pa.Array) -> pa.Array:
    rows, width = len(text), text.dtype.itemsize
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
    made = pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(text))
    return made if column.null_count == 0 else pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string()))
