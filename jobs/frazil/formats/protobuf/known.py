"""Messages that become one value: Google's and Confluent's types for times and decimals."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Context, Decimal
from typing import cast

from frazil.formats.faults import Broken
from frazil.formats.protobuf.scalars import ScalarName
from frazil.model.dead_letter import Reason

Fields = tuple[tuple[str, ScalarName], ...]
"""The fields of a message, numbered from 1."""

SECONDS: Fields = (("seconds", "int64"), ("nanos", "int32"))
DATE: Fields = (("year", "int32"), ("month", "int32"), ("day", "int32"))
TIME: Fields = (("hours", "int32"), ("minutes", "int32"), ("seconds", "int32"), ("nanos", "int32"))
DECIMAL: Fields = (("value", "bytes"), ("precision", "uint32"), ("scale", "int32"))

_LEAST_SECONDS, _MOST_SECONDS = -62_135_596_800, 253_402_300_799
_MOST_DURATION = 315_576_000_000
_MOST_NANOS = 999_999_999
_EXACT = Context(prec=100)
_EPOCH = datetime.date(1970, 1, 1).toordinal()

Values = list[object]
Result = tuple[object, bool]
"""A column value, and whether it lost digits below the microsecond."""


def _ranged(value: object, least: int, most: int, name: str) -> int:
    number = cast(int, value)
    if least <= number <= most:
        return number
    broken = Broken(Reason.OUT_OF_RANGE, f"expected a value from {least} to {most}, found {number}")
    broken.segments.append(name)
    raise broken


def timestamp(values: Values) -> Result:
    seconds = _ranged(values[0], _LEAST_SECONDS, _MOST_SECONDS, "seconds")
    nanos = _ranged(values[1], 0, _MOST_NANOS, "nanos")
    return seconds * 1_000_000 + nanos // 1000, nanos % 1000 != 0


def duration(values: Values) -> Result:
    seconds = _ranged(values[0], -_MOST_DURATION, _MOST_DURATION, "seconds")
    nanos = _ranged(values[1], -_MOST_NANOS, _MOST_NANOS, "nanos")
    if seconds * nanos < 0:
        raise Broken(Reason.OUT_OF_RANGE, f"{seconds} seconds and {nanos} nanos have different signs")
    micros = abs(nanos) // 1000
    return seconds * 1_000_000 + (micros if nanos > 0 else -micros), nanos % 1000 != 0


def date(values: Values) -> Result:
    year = _ranged(values[0], 1, 9999, "year")
    month = _ranged(values[1], 1, 12, "month")
    day = _ranged(values[2], 1, _days_in(year, month), "day")
    return datetime.date(year, month, day).toordinal() - _EPOCH, False


def _days_in(year: int, month: int) -> int:
    following = (year, month + 1) if month < 12 else (year + 1, 1)
    if following == (10_000, 1):
        return 31
    return (datetime.date(*following, 1) - datetime.date(year, month, 1)).days


def time_of_day(values: Values) -> Result:
    hours = _ranged(values[0], 0, 23, "hours")
    minutes = _ranged(values[1], 0, 59, "minutes")
    seconds = _ranged(values[2], 0, 59, "seconds")
    nanos = _ranged(values[3], 0, _MOST_NANOS, "nanos")
    return (3600 * hours + 60 * minutes + seconds) * 1_000_000 + nanos // 1000, nanos % 1000 != 0


def decimal(values: Values, precision: int, scale: int) -> Decimal:
    """Return a decimal at the column's scale. Each record has a scale of its own."""
    digits, given = cast(bytes, values[0]), cast(int, values[2])
    if not digits:
        raise Broken(Reason.OUT_OF_RANGE, "expected a decimal of at least 1 byte, found 0")
    unscaled, shift = int.from_bytes(digits, "big", signed=True), scale - given
    too_many = Broken(Reason.OUT_OF_RANGE, f"the decimal has more digits than its precision of {precision}")
    if not -(2**127) <= unscaled < 2**127 or (unscaled and shift > 38):
        raise too_many
    if unscaled and shift < 0:
        unscaled, rest = divmod(unscaled, 10 ** min(-shift, 39))
        if rest:
            raise Broken(Reason.OUT_OF_RANGE, f"the decimal has digits below the scale of {scale}")
    elif unscaled:
        unscaled *= 10**shift
    if abs(unscaled) >= 10**precision:
        raise too_many
    return Decimal(unscaled).scaleb(-scale, _EXACT)


KNOWN: dict[str, tuple[Fields, Callable[[Values], Result]]] = {
    "timestamp": (SECONDS, timestamp),
    "duration": (SECONDS, duration),
    "date": (DATE, date),
    "time-of-day": (TIME, time_of_day),
}
