"""The periods of exports: the last whole day, week or month in a time zone, and those between two times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.exports.periods import last_period, period_between
from frazil.model.errors import Misuse
from frazil.model.exports import Every, ExportWindow

NOW = datetime(2026, 1, 5, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "zone", "now", "expected"),
    [
        ("week", "UTC", NOW, ("2026-W01", "2025-12-29T00:00:00+00:00", "2026-01-05T00:00:00+00:00")),
        ("week", "America/New_York", NOW, ("2025-W52", "2025-12-22T00:00:00-05:00", "2025-12-29T00:00:00-05:00")),
        ("day", "Asia/Tokyo", NOW, ("2026-01-04", "2026-01-04T00:00:00+09:00", "2026-01-05T00:00:00+09:00")),
        ("month", "UTC", NOW, ("2025-12", "2025-12-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00")),
        (
            "week",
            "Europe/Berlin",
            datetime(2026, 3, 30, 8, tzinfo=UTC),
            ("2026-W13", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"),
        ),
        (
            "week",
            "UTC",
            NOW - timedelta(hours=1),
            ("2025-W52", "2025-12-22T00:00:00+00:00", "2025-12-29T00:00:00+00:00"),
        ),
    ],
)
def test_the_last_period_is_whole(every: Every, zone: str, now: datetime, expected: tuple[str, str, str]) -> None:
    found = last_period(ExportWindow("at", every, zone), now)

    assert (found.label, found.start.isoformat(), found.end.isoformat()) == expected


@pytest.mark.parametrize(
    ("every", "start", "end", "label"),
    [
        ("week", "2026-01-12", "2026-01-19", "2026-W03"),
        ("week", "2026-01-11T23:00:00Z", "2026-01-18T23:00Z", "2026-W03"),
        ("week", "2026-01-12", "2026-01-26", "20260111T230000Z_20260125T230000Z"),
        ("day", "2026-01-12", "2026-01-13", "2026-01-12"),
        ("month", "2026-12-01", "2027-01-01", "2026-12"),
        ("month", "2026-12-01", "2026-12-31", "20261130T230000Z_20261230T230000Z"),
    ],
)
def test_times_that_bound_a_period_are_that_period(every: Every, start: str, end: str, label: str) -> None:
    assert period_between(ExportWindow("at", every, "Europe/Berlin"), start, end).label == label


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("2026-01-12", "2026-01-12", "is not before --to"),
        ("2026-13-01", "2026-01-12", "--from 2026-13-01 is not a day or a time"),
        ("2026-01-01", "Monday", "--to Monday is not"),
        ("2026-10-25T02:10+01:00", "2026-10-25T02:50+02:00", "is not before --to"),
        ("9999-12-31", "9999-12-31T23:59-12:00", "--to 9999-12-31T23:59-12:00 is not a day or a time"),
    ],
)
def test_other_times_are_refused(start: str, end: str, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        period_between(ExportWindow("at", "week", "Europe/Berlin"), start, end)


@pytest.mark.parametrize(
    ("zone", "start", "end", "seconds"),
    [
        ("Europe/Berlin", "2026-10-25T02:50+02:00", "2026-10-25T02:10+01:00", 1_200),
        ("America/Havana", "2026-11-01T00:00-05:00", "2026-11-02", 86_400),
        ("UTC", "9999-12-31", "9999-12-31T23:00", 82_800),
    ],
)
def test_a_clock_that_is_put_back_and_the_end_of_time_make_no_day(
    zone: str, start: str, end: str, seconds: int
) -> None:
    period = period_between(ExportWindow("at", "day", zone), start, end)

    assert (period.end.astimezone(UTC) - period.start.astimezone(UTC)).total_seconds() == seconds
    assert "Z_" in period.label
