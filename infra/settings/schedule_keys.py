"""Keys of the jobs in an environment's file: when job runs prove and maintain the tables, and in which time zone."""

from __future__ import annotations

from frazil.specs.export_keys import parse_time_zone
from frazil.specs.keys import Derived, Key
from frazil.specs.shapes import Scalar
from infra.settings.export_keys import parse_expression

VERIFY = Key(
    "verify",
    Scalar("a schedule", parse_expression),
    "When a job run proves all tables with `frazil verify`, as an expression of EventBridge Scheduler. If the proof"
    " fails, the alarm for failed job runs is raised.",
    Derived("none: tables are verified by hand"),
)
MAINTAIN = Key(
    "maintain",
    Scalar("a schedule", parse_expression),
    "When a job run compacts all tables and expires their snapshots with `frazil maintain`, as an expression of"
    " EventBridge Scheduler. If it fails, the alarm for failed job runs is raised.",
    Derived("none: drivers do it between their batches"),
)
TIME_ZONE = Key(
    "time_zone",
    Scalar("a time zone", parse_time_zone),
    "The time zone of the cron expressions in `jobs`: Europe/Berlin.",
    Derived("UTC"),
)
