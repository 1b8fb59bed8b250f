"""UUIDs that are texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Converted, flags, without_bad

_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_LENGTH = 36
_DASHES = (8, 13, 18, 23)
_ZERO = "00000000-0000-0000-0000-000000000000"


def uuid(texts: pa.Array) -> Converted:
    """Convert texts of 32 hexadecimal digits in five groups."""
    is_null = texts.is_null()
    is_bad = ~flags(pc.match_substring_regex(texts, _PATTERN)) & ~flags(is_null)
    whole = without_bad(texts, is_bad).fill_null(_ZERO)
    characters = _characters(whole)
    halves = _digit(np.delete(characters, _DASHES, axis=1))
    packed = (halves[:, 0::2] << 4 | halves[:, 1::2]).astype(np.uint8)
    absent = flags(is_null) | is_bad
    storage = pa.Array.from_buffers(
        pa.binary(16), len(texts), [pa.array(~absent).buffers()[1], pa.py_buffer(packed.tobytes())]
    )
    values = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    return Converted(values, is_bad if is_bad.any() else None, detail="expected a UUID of 36 characters")


def _characters(whole: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the characters of texts that all have the length of a UUID, one text a row."""
    _, offsets, data = whole.cast(pa.large_string()).buffers()
    start = int(np.frombuffer(offsets, np.int64)[whole.offset]) if len(whole) else 0
    count = len(whole) * _LENGTH
    found = np.frombuffer(data, np.uint8)[start : start + count] if count else np.empty(0, np.uint8)
    return found.reshape(-1, _LENGTH)


def _digit(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the values of hexadecimal digits: letters have the bit 64, and their last four bits count from 1."""
    return ((characters & 15) + np.where(characters & 64, 9, 0)).astype(np.uint8)
