"""The key `verify` of the jobs in an environment's file: when a job run proves the tables."""

from __future__ import annotations

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
