"""The key `exports` of an environment's file: when each export runs, and who gets its announcements."""

from __future__ import annotations

from frazil.specs.export_keys import parse_time_zone
from frazil.specs.keys import Built, Derived, Key, Section
from frazil.specs.scalars import NAME
from frazil.specs.shapes import ListOf, MapOf, Scalar, Unfit
from infra.settings.model import CloudExport
from infra.settings.scalars import EMAIL, SCHEDULE_PATTERN

LONGEST_NAME = 28
"""Of an export: it is part of the name of a schedule, with that of the longest environment."""


def parse_export_name(text: str) -> str:
    if not NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise Unfit(f"write the name of a file of exports/ without .yaml, of at most {LONGEST_NAME} characters")
    return text


def parse_expression(text: str) -> str:
    if not SCHEDULE_PATTERN.fullmatch(text):
        raise Unfit("write cron(0 7 ? * MON *) with its six fields, a ? for one of both days, or rate(7 days)")
    return text


SCHEDULE = Key(
    "schedule",
    Scalar("a schedule", parse_expression),
    "When it runs, as an expression of EventBridge Scheduler: `cron(0 7 ? * MON *)` is each Monday at seven.",
    Derived("none: it is run by hand"),
)
TIME_ZONE = Key(
    "time_zone",
    Scalar("a time zone", parse_time_zone),
    "The time zone of the schedule: Europe/Berlin.",
    Derived("that of the export's window"),
)
MAIL = Key(
    "mail",
    ListOf(EMAIL),
    "The addresses that get its announcements; each first gets a confirmation link.",
    "[]",
)
EXPORTS = Key(
    "exports",
    MapOf(
        Scalar("an export's name", parse_export_name),
        Built(
            Section((SCHEDULE, TIME_ZONE, MAIL), label="an export"),
            lambda values: CloudExport(values.get(SCHEDULE), values.get(TIME_ZONE), values[MAIL]),
        ),
    ),
    "The exports that run in the cloud, by the names of their specs in exports/; without any, there is no such stack.",
    "{}",
)
