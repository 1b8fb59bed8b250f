"""The columns that say from when to when a row of a history was valid (docs/decisions/0036)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.model.columns import Column, ColumnType, Scalar
from frazil.modes.order import as_order

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


TIMES = frozenset(Scalar(name) for name in ("date", "timestamp", "timestamptz"))
"""The types of columns that may say when a row begins to be valid."""

_MOST = 2**63 - 2
"""The greatest time in microseconds: one more is `OPEN`. The least is as far from 1970, since a null is one less."""
_MICROSECONDS_OF_A_DAY = 86_400 * 10**6


def begins(values: pa.Array) -> pa.Int64Array:
    """Return dates and times as microseconds since 1970: a date as its midnight in UTC, a time without a zone in UTC.

    They are null where the values are, and where an interval cannot have such a time.
    """
    unit = _MICROSECONDS_OF_A_DAY if pa.types.is_date(values.type) else 1
    counts = as_order(values)
    given = counts.fill_null(0).to_numpy()
    most = _MOST // unit
    is_lost = (given > most) | (given < -most) | counts.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(is_lost, 0, given) * unit, pa.int64(), mask=is_lost)
