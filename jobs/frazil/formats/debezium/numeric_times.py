"""Dates, times of day and timestamps that are numbers of days, milliseconds, microseconds or nanoseconds."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.debezium.converted import Conversion, Converted, Flags, without_bad
from frazil.model.dead_letter import Reason

MICROS_A_DAY = 86_400_000_000
INFINITY, MINUS_INFINITY = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
"""PostgreSQL's infinite timestamps in microseconds, as the connector writes them for columns without a time zone."""

_LONGS = np.iinfo(np.int64)
_Longs = npt.NDArray[np.int64]


def date(days: pa.Array) -> Converted:
    return Converted(days.cast(pa.date32()))


def time_of_day(unit_nanos: int) -> Conversion:
    """Return the conversion of numbers of a unit since midnight."""
    return partial(_time_of_day, unit_nanos=unit_nanos)


def timestamp(unit_nanos: int) -> Conversion:
    """Return the conversion of numbers of a unit since 1970 in local time, without a zone."""
    return partial(_timestamp, unit_nanos=unit_nanos)


def without_zone(timestamps: pa.Array) -> Converted:
    """Convert timestamps of local time that were decoded as if they were in UTC."""
    return Converted(timestamps.view(pa.timestamp("us")))


def _time_of_day(given: pa.Array, *, unit_nanos: int) -> Converted:
    numbers, is_there = _longs(given)
    a_day = MICROS_A_DAY * 1000 // unit_nanos
    is_bad = is_there & ((numbers < 0) | (numbers >= a_day))
    micros, lost = _micros(np.where(is_bad, 0, numbers), unit_nanos)
    detail = "a time of day is at least 0 and less than 24 hours"
    return _converted(given, micros, pa.time64("us"), is_bad, lost, detail)


def _timestamp(given: pa.Array, *, unit_nanos: int) -> Converted:
    if unit_nanos == 1000 and pa.types.is_int64(given.type):
        return Converted(given.view(pa.timestamp("us")))
    numbers, is_there = _longs(given)
    most = _LONGS.max // max(1, unit_nanos // 1000)
    is_bad = is_there & ((numbers > most) | (numbers < -most))
    if unit_nanos <= 1000:
        is_bad[:] = False
    micros, lost = _micros(np.where(is_bad, 0, numbers), unit_nanos)
    if unit_nanos == 1:
        micros, lost = _with_infinity(numbers, micros, lost)
    return _converted(given, micros, pa.timestamp("us"), is_bad, lost, "the timestamp does not fit in 64 bits")


def _with_infinity(nanos: _Longs, micros: _Longs, lost: Flags) -> tuple[_Longs, Flags]:
    """The greatest and the least number of nanoseconds are PostgreSQL's infinite timestamps."""
    is_most, is_least = nanos == _LONGS.max, nanos == _LONGS.min
    return np.where(is_most, INFINITY, np.where(is_least, MINUS_INFINITY, micros)), lost & ~is_most & ~is_least


def _longs(given: pa.Array) -> tuple[_Longs, Flags]:
    """Return the numbers, with 0 for null, and which are not null."""
    is_there: Flags = given.is_valid().to_numpy(zero_copy_only=False)
    whole = given.fill_null(0) if given.null_count else given
    return whole.to_numpy().astype(np.int64, copy=False), is_there


def _micros(numbers: _Longs, unit_nanos: int) -> tuple[_Longs, Flags]:
    """Return microseconds, rounded down, and which of them lost digits."""
    if unit_nanos >= 1000:
        return numbers * (unit_nanos // 1000), np.zeros(len(numbers), np.bool_)
    per_micro = 1000 // unit_nanos
    return numbers // per_micro, numbers % per_micro != 0


def _converted(
    given: pa.Array, micros: _Longs, wanted: pa.DataType, is_bad: Flags, lost: Flags, detail: str
) -> Converted:
    mask = given.is_null().to_numpy(zero_copy_only=False) if given.null_count else None
    values = pa.array(micros, mask=mask).view(wanted)
    return Converted(
        without_bad(values, is_bad), is_bad if is_bad.any() else None, Reason.OUT_OF_RANGE, detail, int(lost.sum())
    )
