"""Hexadecimal digits in texts of one length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def digits_of(texts: pa.Array, places: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Return the values of the hexadecimal digits at these places, one text a row.

    All texts have the same length and none is null.
    """
    _, offsets, data = texts.cast(pa.large_string()).buffers()
    if not len(texts):
        return np.empty((0, len(places)), np.uint8)
    start, end = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    characters = np.frombuffer(data, np.uint8)[start:end].reshape(len(texts), -1)[:, places]
    return ((characters & 15) + np.where(characters & 64, 9, 0)).astype(np.uint8)
