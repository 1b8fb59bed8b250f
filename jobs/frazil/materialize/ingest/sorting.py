"""Rows in a table's sort order (Iceberg specification, "Sort Orders")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform

from frazil.materialize.ingest.transformed import transformed

_TRANSFORMS = (IdentityTransform, BucketTransform, TruncateTransform, TimeTransform)
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
"""The integer of the same width, for each type of floating-point numbers."""


def possible_order(order: SortOrder, schema: Schema) -> SortOrder:
    """Return the order, or none if another writer gave the table one that is not known here."""
    known = all(
        isinstance(field.transform, _TRANSFORMS) and schema.find_column_name(field.source_id) for field in order.fields
    )
    return order if known else UNSORTED_SORT_ORDER


def in_order(batches: Sequence[pa.RecordBatch], schema: Schema, order: SortOrder) -> pa.Table:
    """Return the rows of the batches sorted. Rows with equal values keep their order."""
    keys = [key for field in order.fields for key in _keys(batches, schema, field)]
    names = [str(number) for number in range(len(keys))]
    directions = ["descending" if descending else "ascending" for _, descending in keys]
    values = pa.table([each for each, _ in keys], names=names)
    rows = pc.sort_indices(values, sort_keys=list(zip(names, directions, strict=True)))
    return pa.Table.from_batches(batches).take(rows)


def _keys(batches: Sequence[pa.RecordBatch], schema: Schema, field: SortField) -> Iterator[tuple[pa.Array, bool]]:
    """Yield what to sort by for one field, each with whether it descends: first whether it is null, then its values."""
    parts = [_comparable(transformed(batch, schema, field.source_id, field.transform)) for batch in batches]
    values = pa.chunked_array(parts).combine_chunks()
    if values.null_count:
        yield values.is_null(), field.null_order == NullOrder.NULLS_FIRST
    yield values, field.direction == SortDirection.DESC


def _comparable(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as integers in Iceberg's order: -NaN, -Infinity, -0, 0, Infinity, NaN."""
    if values.type not in _BITS:
        return values
    bits = values.view(_BITS[values.type])
    all_but_sign = pa.scalar((1 << (bits.type.bit_width - 1)) - 1, bits.type)
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, all_but_sign), bits)
