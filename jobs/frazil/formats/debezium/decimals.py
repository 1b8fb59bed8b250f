"""Decimals whose scale differs from value to value: `io.debezium.data.VariableScaleDecimal`."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Converted, Flags, flags
from frazil.model.dead_letter import Reason

_WIDTH = 16
_DIGITS = 38
_EXACT = Context(prec=200_000)
"""PostgreSQL's `numeric` has at most 131,072 digits before the point and 16,383 after it."""
_MOST_ZEROS = 1_000
"""A scale may add so many zeros to the digits that the bytes hold: a few bytes must not become megabytes of text."""


def decimal_text(structs: pa.Array) -> Converted:
    """Convert the scale and the unscaled value, a big-endian number in two's complement, to the exact decimal as text.

    Values of up to 15 bytes are converted together by scale, any others one by one.
    """
    scales, values = pc.struct_field(structs, "scale"), pc.struct_field(structs, "value").cast(pa.large_binary())
    is_there = flags(structs.is_valid()) & flags(scales.is_valid()) & flags(values.is_valid())
    scale = scales.fill_null(0).to_numpy()
    length = pc.binary_length(values).fill_null(0).to_numpy()
    is_bad = is_there & (np.abs(scale.astype(np.int64)) > _MOST_ZEROS + 3 * length)
    is_usual = is_there & (length > 0) & (length < _WIDTH) & (scale >= 0) & (scale <= _DIGITS)
    texts = np.full(len(structs), None, object)
    for each in np.unique(scale[is_usual]).tolist():
        here = np.flatnonzero(is_usual & (scale == each))
        texts[here] = _texts(values.take(pa.array(here)), length[here], each)
    unusual = is_there & ~is_bad & (~is_usual | _has_exponent(texts))
    for index in np.flatnonzero(unusual).tolist():
        texts[index] = _text(values[index].as_py(), int(scale[index]))
    detail = f"the scale adds more than {_MOST_ZEROS} zeros to the digits"
    return Converted(pa.array(texts, pa.large_string()), is_bad if is_bad.any() else None, Reason.OUT_OF_RANGE, detail)


def _texts(values: pa.LargeBinaryArray, length: npt.NDArray[np.int64], scale: int) -> npt.NDArray[np.object_]:
    kind = pa.decimal128(_DIGITS, scale)
    numbers = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(_little_endian(values, length))])
    found: npt.NDArray[np.object_] = numbers.cast(pa.large_string()).to_numpy(zero_copy_only=False)
    return found


def _little_endian(values: pa.LargeBinaryArray, length: npt.NDArray[np.int64]) -> bytes:
    """Return big-endian numbers of less than 16 bytes as little-endian ones of 16 bytes."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values)]
    source = np.frombuffer(data, np.uint8)
    wide = np.zeros((len(values), _WIDTH), np.uint8)
    for each in np.unique(length).tolist():
        here = np.flatnonzero(length == each)
        digits = source[starts[here, None] + np.arange(each)]
        wide[here, :each] = digits[:, ::-1]
        wide[here, each:] = np.where(digits[:, :1] & 128, 255, 0)
    return wide.tobytes()


def _has_exponent(texts: npt.NDArray[np.object_]) -> Flags:
    """Return which texts are in scientific notation, which Arrow uses for numbers that are close to 0."""
    return flags(pc.match_substring(pa.array(texts, pa.large_string()), "E"))


def _text(value: bytes, scale: int) -> str:
    number = Decimal(int.from_bytes(value, signed=True))
    return f"{number.scaleb(-scale, _EXACT):f}"
