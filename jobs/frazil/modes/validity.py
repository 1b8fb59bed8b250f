"""The columns that say from when to when a row of a history was valid (docs/decisions/0036)."""

from __future__ import annotations

from frazil.model.columns import Column, ColumnType, Scalar

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
NAMES = (VALID_FROM, VALID_TO, IS_CURRENT)

OPEN = 2**63 - 1
"""The end of the interval of a row that is valid still, whose `valid_to` is null."""


def validity_columns(time: ColumnType = Scalar("timestamptz")) -> tuple[Column, ...]:  # noqa: B008 - it is frozen
    """Return the columns, for times of this type."""
    return (
        Column(VALID_FROM, time, doc="The row is valid from this time on."),
        Column(VALID_TO, time, doc="The row is valid until before this time; null while it is valid."),
        Column(IS_CURRENT, Scalar("boolean"), doc="Whether the row is valid still."),
    )
