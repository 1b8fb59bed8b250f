"""UUIDs that are texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Converted, Flags, flags, without_bad
from frazil.formats.debezium.hexadecimal import characters_of, unpacked

_ZERO = "00000000-0000-0000-0000-000000000000"
_FORMS = bytes(ord("0") if chr(each) in "0123456789abcdefABCDEF" else each for each in range(256))
"""The form of each character: all hexadecimal digits have the same one."""


def uuid(texts: pa.Array) -> Converted:
    """Convert texts of 32 hexadecimal digits in five groups."""
    is_null = flags(texts.is_null())
    is_bad = ~is_null & ~flags(pc.equal(pc.binary_length(texts), len(_ZERO)))
    whole = without_bad(texts, is_bad).fill_null(_ZERO)
    has_other_form = _has_other_form(characters_of(whole), len(texts))
    if has_other_form.any():
        is_bad |= has_other_form
        whole = without_bad(whole, has_other_form).fill_null(_ZERO)
    packed = unpacked(characters_of(whole), b"-", len(texts))
    is_there = pa.array(~(is_null | is_bad)).buffers()[1]
    storage = pa.Array.from_buffers(pa.binary(16), len(texts), [is_there, pa.py_buffer(packed)])
    values = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    return Converted(values, is_bad if is_bad.any() else None, detail="expected a UUID of 36 characters")


def _has_other_form(characters: bytes, count: int) -> Flags:
    """Return which texts of the right length have other characters than digits and dashes, or have them elsewhere."""
    forms = characters.translate(_FORMS)
    if forms == _ZERO.encode() * count:
        return np.zeros(count, np.bool_)
    rows = np.frombuffer(forms, np.uint8).reshape(count, len(_ZERO))
    has_other: Flags = (rows != np.frombuffer(_ZERO.encode(), np.uint8)).any(axis=1)
    return has_other
