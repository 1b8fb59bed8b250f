"""UUIDs that are texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Converted, flags, without_bad
from frazil.formats.debezium.hexadecimal import digits_of

_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_DIGITS = (*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36))
"""The places of the digits, between which are dashes."""
_ZERO = "00000000-0000-0000-0000-000000000000"


def uuid(texts: pa.Array) -> Converted:
    """Convert texts of 32 hexadecimal digits in five groups."""
    is_null = texts.is_null()
    is_bad = ~flags(pc.match_substring_regex(texts, _PATTERN)) & ~flags(is_null)
    whole = without_bad(texts, is_bad).fill_null(_ZERO)
    halves = digits_of(whole, _DIGITS)
    packed = (halves[:, 0::2] << 4 | halves[:, 1::2]).astype(np.uint8)
    absent = flags(is_null) | is_bad
    storage = pa.Array.from_buffers(
        pa.binary(16), len(texts), [pa.array(~absent).buffers()[1], pa.py_buffer(packed.tobytes())]
    )
    values = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    return Converted(values, is_bad if is_bad.any() else None, detail="expected a UUID of 36 characters")
