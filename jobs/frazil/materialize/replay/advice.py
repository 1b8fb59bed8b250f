"""What to do with dead letters that a replay leaves."""

from __future__ import annotations

from frazil.materialize.replay.redecode import TRUNCATE
from frazil.materialize.replay.request import ReplayResult
from frazil.modes.incomplete import NO_ROW_TO_KEEP
from frazil.modes.undecided import ORDER_UNKNOWN, VALUES_UNKNOWN

OF_PLACE = frozenset({ORDER_UNKNOWN, VALUES_UNKNOWN, NO_ROW_TO_KEEP, TRUNCATE})
"""Why records are left that can be decoded: a table that follows keys does not know what came after them."""


def advice(result: ReplayResult, table: str) -> str | None:
    """Return what makes rows of those that are left although they can be decoded, or None if all cannot be."""
    if OF_PLACE.isdisjoint(result.stayed):
        return None
    reasons = ", ".join(sorted(OF_PLACE & set(result.stayed)))
    return f"a replay cannot apply {reasons}: `frazil rebuild {table}` reads all records again"
