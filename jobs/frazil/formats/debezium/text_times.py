"""Dates, times of day and timestamps that are texts of ISO 8601."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Converted, Flags, flags, without_bad
from frazil.formats.debezium.numeric_times import INFINITY, MICROS_A_DAY, MINUS_INFINITY
from frazil.model.dead_letter import Reason

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(\.\d+)?"
_ZONE = r"(Z|[+-]\d\d:\d\d)"
_TIMESTAMP_TEXT = f"^{_DATE}T{_TIME}{_ZONE}$"
_LOST_DIGITS, _KEPT_DIGITS = r"(\.\d{6})\d+", r"\1"


def zoned_timestamp(texts: pa.Array) -> Converted:
    """Convert texts such as `2024-12-31T23:59:58.5Z`; `infinity` and `-infinity` become PostgreSQL's numbers."""
    is_infinite = flags(pc.equal(texts, "infinity")), flags(pc.equal(texts, "-infinity"))
    finite = without_bad(texts, is_infinite[0] | is_infinite[1])
    found = _timestamps(finite, _TIMESTAMP_TEXT, "expected a date and time such as 2024-12-31T23:59:58.5Z")
    values = found.values
    for is_here, micros in zip(is_infinite, (INFINITY, MINUS_INFINITY), strict=True):
        if is_here.any():
            values = pc.if_else(pa.array(is_here), pa.scalar(micros, pa.int64()).cast(values.type), values)
    return Converted(values, found.is_bad, found.reason, found.detail, found.truncated_nanos)


def timestamp(texts: pa.Array) -> Converted:
    """Convert texts such as `2024-12-31T23:59:58.5Z` of local time: the `Z` means no zone."""
    found = zoned_timestamp(texts)
    return Converted(
        found.values.view(pa.timestamp("us")), found.is_bad, found.reason, found.detail, found.truncated_nanos
    )


def date(texts: pa.Array) -> Converted:
    """Convert texts such as `2024-12-31Z`; the zone has no effect."""
    expected = "expected a date such as 2024-12-31Z"
    days = pc.replace_substring_regex(texts, f"{_ZONE}$", "")
    joined = _joined(days, pa.scalar("00:00:00Z", days.type))
    found = _timestamps(joined, f"^{_DATE}T00:00:00Z$", expected)
    return Converted(found.values.cast(pa.date32()), found.is_bad, found.reason, expected)


def time_of_day(texts: pa.Array) -> Converted:
    """Convert texts such as `23:59:58.5Z`."""
    joined = _joined(pa.scalar("1970-01-01", texts.type), texts)
    found = _timestamps(joined, _TIMESTAMP_TEXT, "expected a time such as 23:59:58.5Z")
    micros = found.values.view(pa.int64())
    in_a_day = pa.array(micros.fill_null(0).to_numpy() % MICROS_A_DAY, mask=_is_null(micros))
    return Converted(in_a_day.view(pa.time64("us")), found.is_bad, found.reason, found.detail, found.truncated_nanos)


def _timestamps(texts: pa.Array, pattern: str, expected: str) -> Converted:
    """Convert texts of one pattern to microseconds; further digits are cut, and counted."""
    is_bad = ~flags(pc.match_substring_regex(texts, pattern)) & ~_is_null(texts)
    given = without_bad(texts, is_bad)
    short, lost = _cut(given)
    kind = pa.timestamp("us", "UTC")
    impossible = _impossible(short, kind, np.arange(len(short)))
    is_bad[impossible] = True
    values = without_bad(short, is_bad).cast(kind)
    return Converted(values, is_bad if is_bad.any() else None, Reason.BAD_FORMAT, expected, lost)


def _cut(texts: pa.Array) -> tuple[pa.Array, int]:
    """Return texts with at most six digits of a second, and how many of them lost others than 0."""
    if not flags(pc.match_substring_regex(texts, _LOST_DIGITS)).any():
        return texts, 0
    lost = pc.sum(pc.match_substring_regex(texts, r"\.\d{6}\d*[1-9]")).as_py() or 0
    return pc.replace_substring_regex(texts, _LOST_DIGITS, _KEPT_DIGITS), lost


def _impossible(texts: pa.Array, kind: pa.DataType, here: npt.NDArray[np.int64]) -> list[int]:
    """Return the indexes of texts that name no time, such as 30 February. Halves are searched, as there are few."""
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        if len(here) == 1:
            return [int(here[0])]
        half = len(here) // 2
        return _impossible(texts[:half], kind, here[:half]) + _impossible(texts[half:], kind, here[half:])
    return []


def _joined(date: pa.Array | pa.Scalar, time: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(date, time, pa.scalar("T", date.type))


def _is_null(values: pa.Array) -> Flags:
    found: Flags = values.is_null().to_numpy(zero_copy_only=False)
    return found
