"""Find the rows of two columns that differ, bit for bit, at any depth of nesting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

_BITS = {pa.float16(): np.uint16, pa.float32(): np.uint32, pa.float64(): np.uint64}


def differing(one: pa.Array, other: pa.Array) -> Mask:
    """Return where two arrays of one type and length differ. All NaNs are equal; 0.0 is not -0.0."""
    one, other = _plain(one), _plain(other)
    null_here, null_there = _mask(one.is_null()), _mask(other.is_null())
    unequal = _unequal_values(one, other) & ~null_here & ~null_there
    differ: Mask = unequal | (null_here != null_there)
    return differ


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _unequal_values(one: pa.Array, other: pa.Array) -> Mask:
    """Return where two non-null values differ. The result at nulls is undefined."""
    kind = one.type
    if kind in _BITS:
        return _unequal_floats(one, other)
    if pa.types.is_struct(kind):
        return _any_of([differing(one.field(n), other.field(n)) for n in range(kind.num_fields)], len(one))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _unequal_lists(one, other)
    return _mask(pc.fill_null(pc.not_equal(one, other), False))


def _unequal_floats(one: pa.Array, other: pa.Array) -> Mask:
    bits = _BITS[one.type]
    here = pc.fill_null(one, 0).to_numpy(zero_copy_only=False)
    there = pc.fill_null(other, 0).to_numpy(zero_copy_only=False)
    both_nan = np.isnan(here) & np.isnan(there)
    return np.asarray((here.view(bits) != there.view(bits)) & ~both_nan, np.bool_)


def _unequal_lists(one: pa.Array, other: pa.Array) -> Mask:
    """Return where two lists differ: first by length, then by the flattened elements of lists of equal length."""
    here, there = _lengths(one), _lengths(other)
    comparable = (here == there) & (here > 0)
    rows = np.flatnonzero(comparable)
    unequal = np.asarray(here != there, np.bool_)
    if len(rows):
        chosen = pa.array(rows)
        inner = _any_of([differing(a, b) for a, b in _elements(one.take(chosen), other.take(chosen))], 0)
        unequal[np.repeat(rows, here[rows])[inner]] = True
    return unequal


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the lengths of lists, 0 for null; nulls are compared elsewhere."""
    lengths = np.diff(array.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.where(_mask(array.is_null()), 0, lengths)


def _elements(one: pa.Array, other: pa.Array) -> list[tuple[pa.Array, pa.Array]]:
    if pa.types.is_map(one.type):
        return [(one.keys, other.keys), (one.items, other.items)]
    return [(one.flatten(), other.flatten())]


def _any_of(masks: list[Mask], count: int) -> Mask:
    return np.logical_or.reduce(masks) if masks else np.zeros(count, np.bool_)
