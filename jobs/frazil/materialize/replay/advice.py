"""What to do with dead letters that a replay leaves."""

from __future__ import annotations

from frazil.materialize.replay.redecode import TRUNCATE
from frazil.materialize.replay.request import ReplayResult
from frazil.model.dead_letter import Reason
from frazil.modes.incomplete import NO_ROW_TO_KEEP
from frazil.modes.undecided import ORDER_UNKNOWN, VALUES_UNKNOWN

OF_PLACE = frozenset({ORDER_UNKNOWN, VALUES_UNKNOWN, NO_ROW_TO_KEEP, TRUNCATE})
"""Why records are left that can be decoded: a table that follows keys does not know what came after them."""


def advice(result: ReplayResult, table: str) -> str | None:
    """Return what makes rows of those that are left although they can be decoded, or None if all cannot be."""
    found = []
    if not OF_PLACE.isdisjoint(result.stayed):
        reasons = ", ".join(sorted(OF_PLACE & set(result.stayed)))
        found.append(f"a replay cannot apply {reasons}: `frazil rebuild {table}` reads all records again")
    if Reason.REFUSED_SCHEMA.value in result.stayed:
        found.append(
            "an excluded schema that the table can hold now stays excluded until"
            f" `frazil resume {table} --no-dead-letter-schema ID`: run it, then replay again"
        )
    return "; ".join(found) or None
