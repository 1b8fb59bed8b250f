"""The order of records: columns of longs, of which a greater one is newer (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.modes.wanted import Numbers

Flags = npt.NDArray[np.bool_]
LEAST = -(2**63)
"""The order of a record or a row without a value in the column that orders it."""


def as_order(values: pa.Array) -> pa.Int64Array:
    """Return int, long, date, timestamp or timestamptz as longs in the same order: a time as its microseconds."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz=values.type.tz))
    return (values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).cast(pa.int64())


def is_newer(pairs: Sequence[tuple[Numbers, Numbers]], count: int) -> Flags:
    """Return which of `count` records are newer than another one each. The pairs are the columns of both."""
    newer, equal = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for ours, theirs in pairs:
        newer |= equal & (ours > theirs)
        equal &= ours == theirs
    return newer
