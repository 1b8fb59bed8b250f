"""The cells of a CSV file: a column of a table as Arrow's CSV writer takes it.

| Type | Cell |
|---|---|
| text | as it is, in quotes; with an apostrophe before what looks like a formula |
| numbers, decimals | all digits, without an exponent for decimals |
| boolean | `true`, `false` |
| date, time | ISO 8601; a time has six digits of a second |
| timestamps | RFC 3339 in UTC, or the wall time of a time zone |
| uuid | 36 characters |
| binary, fixed | hexadecimal digits |
| struct, list, map | JSON |

A null is an empty cell, and an empty text is `""`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.exports.timestamps import EPOCH, date_of_any_year, timestamps_as_text

LARGEST_SCALE = 6
"""Arrow writes decimals with more digits after the point as `1E-7`, if they are that small."""

NO_DATES = (-EPOCH + 1, 2_932_896)
"""Days since 1970: the first and the last one whose year has four digits."""

_HEXADECIMAL = np.array([list(f"{n:02x}".encode()) for n in range(256)], np.uint8)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def as_cells(column: pa.Array, wall_clock: ZoneInfo | None) -> pa.Array:
    """Return a column that is not nested as text, or as numbers that Arrow writes as the table above says."""
    kind = column.type
    if isinstance(kind, pa.UuidType):
        return _uuids(column.storage)
    if pa.types.is_timestamp(kind):
        return timestamps_as_text(column, wall_clock)
    if pa.types.is_decimal(kind) and kind.scale > LARGEST_SCALE:
        return _decimals(column)
    if pa.types.is_date(kind):
        return _dates(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hexadecimal(column)
    return column


def _decimals(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if not pc.any(pc.match_substring(texts, "E")).as_py():
        return texts
    return pa.array([None if each is None else format(cast("Decimal", each), "f") for each in column.to_pylist()])


def _dates(column: pa.Array) -> pa.Array:
    days = column.cast(pa.int32())
    known = pc.min_max(days)
    if known["min"].as_py() is None or (NO_DATES[0] <= known["min"].as_py() and known["max"].as_py() <= NO_DATES[1]):
        return column
    return pa.array([None if each is None else date_of_any_year(each) for each in days.to_pylist()], pa.string())


def _uuids(column: pa.Array) -> pa.Array:
    texts = _hexadecimal(column)
    parts = [pc.utf8_slice_codeunits(texts, start, stop) for start, stop in
             ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]  # fmt: skip
    return pc.binary_join_element_wise(*parts, pa.scalar("-", texts.type))


def _hexadecimal(column: pa.Array) -> pa.Array:
    values = column.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    held = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]] if data is not None else np.empty(0, np.uint8)
    moved = pa.py_buffer((starts - starts[0]) * 2)
    made = pa.LargeStringArray.from_buffers(len(values), moved, pa.py_buffer(_HEXADECIMAL[held]))
    return made if column.null_count == 0 else pc.if_else(column.is_valid(), made, pa.scalar(None, pa.large_string()))
