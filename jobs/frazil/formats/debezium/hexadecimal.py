"""Hexadecimal digits in texts."""

from __future__ import annotations

import binascii

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def characters_of(texts: pa.Array) -> bytes:
    """Return texts, none of them null, one after another."""
    _, offsets, data = texts.cast(pa.large_string()).buffers()
    if not len(texts):
        return b""
    start, end = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    return bytes(memoryview(data)[start:end])


def unpacked(characters: bytes, separator: bytes, rows: int) -> npt.NDArray[np.uint8]:
    """Return the bytes that digits are, as many in each row; separators between digits have no effect."""
    digits = binascii.unhexlify(characters.translate(None, separator))
    return np.frombuffer(digits, np.uint8).reshape(rows, -1) if rows else np.empty((0, 0), np.uint8)
