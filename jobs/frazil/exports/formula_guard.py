"""Text that a spreadsheet would take for a formula, and the apostrophe that prevents it.

A spreadsheet evaluates a cell that begins with one of these characters, however the cell is quoted ("CSV Injection",
OWASP). An apostrophe before it makes it text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

FIRST_CHARACTERS = "=+-@\t\r\n"
FULL_WIDTH = "＝＋－＠"  # noqa: RUF001 - these are the characters that are searched
"""The full-width forms of the first four, which a spreadsheet with an East Asian keyboard evaluates, too."""

_FIRST_BYTES = [character.encode()[0] for character in FIRST_CHARACTERS + FULL_WIDTH]
_IS_FIRST: npt.NDArray[np.bool_] = np.isin(np.arange(256), _FIRST_BYTES)


def guarded(column: pa.Array) -> tuple[pa.Array, int]:
    """Return a column of text with an apostrophe before each value that looks like a formula, and their number."""
    suspects = _suspects(column)
    if not suspects.any():
        return column, 0
    unsafe = np.flatnonzero(suspects)
    texts = column.take(pa.array(unsafe)).to_pylist()
    sure = np.array([text is not None and text[:1] in FIRST_CHARACTERS + FULL_WIDTH for text in texts], np.bool_)
    marked = np.zeros(len(column), np.bool_)
    marked[unsafe[sure]] = True
    quoted = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
    return pc.if_else(pa.array(marked), quoted, column), int(sure.sum())


def guarded_name(name: str) -> str:
    """Return the name of a column as the header has it."""
    return f"'{name}" if name[:1] and name[0] in FIRST_CHARACTERS + FULL_WIDTH else name


def _suspects(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values begin with the first byte of such a character. Values that are null may be among them."""
    width: Any = np.int64 if pa.types.is_large_string(column.type) else np.int32
    _, offsets, data = column.buffers()
    if data is None or data.size == 0 or len(column) == 0:
        return np.zeros(len(column), np.bool_)
    starts = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    characters = np.frombuffer(data, np.uint8)
    first = characters[np.minimum(starts[:-1], len(characters) - 1)]
    is_first: npt.NDArray[np.bool_] = _IS_FIRST[first] & (starts[1:] > starts[:-1])
    return is_first
