"""Values that a connector could not read: it writes a placeholder, whose form depends on the column's type.

The forms are those of `UnchangedToastedPlaceholder` of Debezium's connector for PostgreSQL. Oracle's connector writes
texts and bytes only.
"""

from __future__ import annotations

import hashlib
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.debezium.converted import Flags, flags
from frazil.formats.families import is_list
from frazil.records import value_ends


def unavailable(values: pa.Array, placeholder: bytes) -> Flags:
    """Return which values of a column, as the connector stores them, are the placeholder."""
    kind = values.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _equal(values, placeholder)
    if is_list(kind):
        return _lists(values, placeholder)
    if pa.types.is_map(kind) and pa.types.is_large_string(kind.key_type):
        return _maps(values, placeholder)
    return np.zeros(len(values), np.bool_)


def _equal(values: pa.Array, wanted: bytes) -> Flags:
    text = wanted.decode(errors="replace") if pa.types.is_large_string(values.type) else None
    if not _have_length(values, len(wanted if text is None else text.encode())):
        return np.zeros(len(values), np.bool_)
    return flags(pc.equal(values, pa.scalar(wanted if text is None else text, values.type)))


def _have_length(values: pa.Array, length: int) -> bool:
    """Return whether any of the texts or bytes has this length in bytes. Few columns without the placeholder do."""
    return bool((np.diff(value_ends(values)) == length).any())


def _lists(lists: pa.LargeListArray, placeholder: bytes) -> Flags:
    kind = lists.type.value_type
    if pa.types.is_int32(kind) or pa.types.is_int64(kind):
        return _numbers(lists, np.frombuffer(placeholder, np.int8))
    if not (pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)):
        return np.zeros(len(lists), np.bool_)
    only = _of_length(lists, 1)
    elements = lists.take(pa.array(only)).flatten()
    is_placeholder = _equal(elements, placeholder)
    if pa.types.is_large_string(kind):
        is_placeholder |= _equal(elements, _uuid(placeholder))
    return _marked(len(lists), only[is_placeholder])


def _numbers(lists: pa.LargeListArray, wanted: np.ndarray[tuple[int], np.dtype[np.int8]]) -> Flags:
    candidates = _of_length(lists, len(wanted))
    elements = lists.take(pa.array(candidates)).flatten().fill_null(-1000).to_numpy().reshape(-1, len(wanted))
    return _marked(len(lists), candidates[(elements == wanted).all(axis=1)])


def _maps(maps: pa.MapArray, placeholder: bytes) -> Flags:
    single = _of_length(maps, 1)
    chosen = maps.take(pa.array(single))
    starts = chosen.offsets.to_numpy()[:-1]
    return _marked(len(maps), single[_equal(chosen.keys.take(pa.array(starts)), placeholder)])


def _of_length(lists: pa.Array, length: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the indexes of lists or maps of a length."""
    offsets = lists.offsets.to_numpy()
    return np.flatnonzero((np.diff(offsets) == length) & flags(lists.is_valid()))


def _marked(count: int, indexes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Flags:
    marks = np.zeros(count, np.bool_)
    marks[indexes] = True
    return marks


def _uuid(placeholder: bytes) -> bytes:
    """Return the text of the UUID that Java's `UUID.nameUUIDFromBytes` makes, without a namespace."""
    digest = hashlib.md5(placeholder, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3)).encode()
