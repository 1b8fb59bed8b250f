"""Rows along a z-order curve: rows that are near each other have near values in each of several columns.

The curve goes through the ranks of values, not through the values themselves. So a column whose values differ in their
last digits only counts as much as one whose values are far apart, and columns of any type that can be sorted have one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BITS = 16
"""Of a place on the curve. A merged file has 16 row groups, and numbers of 16 bits are sorted fastest."""


def in_z_order(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
    """Return the rows of the batches along the curve of up to 4 columns. Nulls come last."""
    rows = pa.Table.from_batches(batches)
    bits = BITS // len(columns)
    parts = [_parts(rows.column(name), 1 << bits) for name in columns]
    places = np.zeros(rows.num_rows, np.uint16)
    for bit in reversed(range(bits)):
        for part in parts:
            places = (places << 1) | ((part >> bit) & 1)
    return rows.take(pa.array(np.argsort(places, kind="stable")))


def _parts(values: pa.ChunkedArray, count: int) -> npt.NDArray[np.uint16]:
    """Return in which of so many parts each value is. Parts have about as many rows; equal values are in one part."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    numbers, ascending = encoded.indices.to_numpy(), pc.sort_indices(encoded.dictionary).to_numpy()
    rows_of_each = np.bincount(numbers, minlength=len(ascending))
    part_of_each: npt.NDArray[np.uint16] = np.empty(len(ascending), np.uint16)
    before = np.cumsum(rows_of_each[ascending]) - rows_of_each[ascending]
    part_of_each[ascending] = before * count // len(numbers)
    found: npt.NDArray[np.uint16] = part_of_each[numbers]
    return found
