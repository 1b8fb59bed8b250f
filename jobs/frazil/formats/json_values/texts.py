"""Texts in a format: dates and times of RFC 3339 ("Internet Date/Time Format"), base64, and decimals in it."""

from __future__ import annotations

import base64
import re
from decimal import Context, Decimal

from frazil.formats.faults import Broken
from frazil.model.dead_letter import Reason

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)"
FULL_DATE, FULL_TIME = re.compile(_DATE, re.ASCII), re.compile(_TIME, re.ASCII)
DATE_TIME = re.compile(f"{_DATE}[Tt ]{_TIME}", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)

MICROS_A_DAY = 86_400_000_000
_DAYS_BEFORE_1970 = 719_468
"""The days from 1 March of the year 0 to 1970."""
EXACT = Context(prec=1000)


def date(text: str) -> int:
    """Return the days since 1970."""
    found = FULL_DATE.fullmatch(text)
    if found is None:
        raise Broken(Reason.BAD_FORMAT, "expected a date such as 2024-12-31")
    return _days(*map(int, found.groups()))


def time(text: str) -> tuple[int, bool]:
    """Return the microseconds of the day in UTC, and whether digits below the microsecond were lost."""
    found = FULL_TIME.fullmatch(text)
    if found is None:
        raise Broken(Reason.BAD_FORMAT, "expected a time with a zone such as 23:59:58.5Z")
    micros, lost = _micros(*found.groups())
    return micros % MICROS_A_DAY, lost


def timestamp(text: str) -> tuple[int, bool]:
    """Return the microseconds since 1970 in UTC, and whether digits below the microsecond were lost."""
    found = DATE_TIME.fullmatch(text)
    if found is None:
        raise Broken(Reason.BAD_FORMAT, "expected a date and time with a zone such as 2024-12-31T23:59:58.5Z")
    year, month, day, *rest = found.groups()
    days = _days(int(year), int(month), int(day))
    micros, lost = _micros(*rest)
    return days * MICROS_A_DAY + micros, lost


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date in the proleptic Gregorian calendar, the year 0 included."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        raise Broken(Reason.BAD_FORMAT, "the date does not exist")
    shifted = year - (month <= 2)
    days_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + days_of_year - _DAYS_BEFORE_1970


def _micros(hour: str, minute: str, second: str, fraction: str | None, zone: str) -> tuple[int, bool]:
    """Return the microseconds since midnight in UTC, which may be of the day before or after."""
    given = fraction or ""
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise Broken(Reason.BAD_FORMAT, "the time does not exist; a leap second has no time in a table")
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second) - _zone_seconds(zone)
    return seconds * 1_000_000 + int(given[:6].ljust(6, "0")), given[6:].strip("0") != ""


def _zone_seconds(zone: str) -> int:
    if zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        raise Broken(Reason.BAD_FORMAT, "the zone does not exist")
    return (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)


def from_base64(text: str, expected: str = "base64 with padding") -> bytes:
    if _BASE64.fullmatch(text) is None:
        raise Broken(Reason.BAD_FORMAT, f"expected {expected}")
    return base64.b64decode(text)


def unscaled_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the decimal whose unscaled value is base64 in two's complement, as Kafka Connect writes it."""
    digits = from_base64(text, "a number, or Kafka Connect's base64 of a decimal")
    if not digits:
        raise Broken(Reason.OUT_OF_RANGE, "expected a decimal of at least 1 byte, found 0")
    unscaled = int.from_bytes(digits, "big", signed=True)
    if abs(unscaled) >= 10**precision:
        raise too_precise(precision, scale)
    return Decimal(unscaled).scaleb(-scale, EXACT)


def too_precise(precision: int, scale: int) -> Broken:
    return Broken(Reason.OUT_OF_RANGE, f"the number has more digits than decimal({precision}, {scale})")
