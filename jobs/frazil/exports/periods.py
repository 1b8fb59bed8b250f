"""The period that an export covers: the last whole day, ISO week or month, or the one between two given times."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from frazil.model.errors import Misuse
from frazil.model.exports import Every, ExportWindow, Period
from frazil.model.moments import rfc3339

HINT = "write a day, 2026-01-31, or a time, 2026-01-31T06:00 (in the window's time zone) or 2026-01-31T06:00:00Z"


def last_period(window: ExportWindow, now: datetime) -> Period:
    """Return the last period that ended by `now`, which has a time zone."""
    zone = ZoneInfo(window.time_zone)
    end = _first_day(now.astimezone(zone).date(), window.every)
    start = _first_day(end - timedelta(days=1), window.every)
    return Period(_label(start, window.every), _midnight(start, zone), _midnight(end, zone))


def period_between(window: ExportWindow, start: str, end: str) -> Period:
    """Return the period from `start` up to `end`: one of the calendar if they are its bounds. Raises Misuse."""
    zone = ZoneInfo(window.time_zone)
    first, last = _moment(start, "--from", zone), _moment(end, "--to", zone)
    if _utc(first) >= _utc(last):
        raise Misuse(f"--from {start} is not before --to {end}", hint="exchange the two, or give a later --to")
    begins = _first_day(first.date(), window.every)
    with suppress(OverflowError, ValueError):  # the year 9999 has no end
        ends = _midnight(_next(begins, window.every), zone)
        if (_utc(first), _utc(last)) == (_utc(_midnight(begins, zone)), _utc(ends)):
            return Period(_label(begins, window.every), first, last)
    return Period(f"{_compact(first)}_{_compact(last)}", first, last)


def _utc(at: datetime) -> datetime:
    """Return a time that is compared with others as it is: in one zone, Python compares what the clocks show."""
    return at.astimezone(UTC)


def _first_day(day: date, every: Every) -> date:
    """Return the first day of the period that a day is in."""
    match every:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)


def _next(first: date, every: Every) -> date:
    return _first_day(first + timedelta(days={"day": 1, "week": 7, "month": 31}[every]), every)


def _label(first: date, every: Every) -> str:
    match every:
        case "day":
            return first.isoformat()
        case "week":
            year, week, _ = first.isocalendar()
            return f"{year}-W{week:02}"
        case "month":
            return f"{first:%Y-%m}"


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def _moment(text: str, option: str, zone: ZoneInfo) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)
        _utc(at)  # must be a time there, too
        return at
    except (ValueError, OverflowError) as error:
        raise Misuse(f"{option} {text} is not a day or a time", hint=HINT) from error


def _compact(at: datetime) -> str:
    """Return a time for the name of a folder: `20260131T120000Z`."""
    return rfc3339(at).replace("-", "").replace(":", "")
