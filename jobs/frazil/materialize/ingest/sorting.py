"""Rows in a table's sort order (Iceberg specification, "Sort Orders")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform

from frazil.materialize.ingest.transformed import transformed
from frazil.materialize.ingest.z_order import in_z_order

_TRANSFORMS = (IdentityTransform, BucketTransform, TruncateTransform, TimeTransform)
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
"""The integer of the same width, for each type of floating-point numbers."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How the rows of a file are arranged: in a table's sort order, else along a curve, else as they come."""

    schema: Schema
    order: SortOrder
    z_order: Sequence[str]

    @classmethod
    def of(cls, schema: Schema, sort_order_json: str, z_order: Sequence[str]) -> Arrangement:
        return cls(schema, possible_order(SortOrder.model_validate_json(sort_order_json), schema), z_order)

    @property
    def moves_rows(self) -> bool:
        """True unless rows stay as they come."""
        return not self.order.is_unsorted or bool(self.z_order)

    @property
    def sort_order_id(self) -> int | None:
        """The order that a file says it is in."""
        return None if self.order.is_unsorted else self.order.order_id

    def of_rows(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the rows as they are to be in a file."""
        if not self.moves_rows:
            return batches
        is_curve = self.order.is_unsorted
        rows = in_z_order(batches, self.z_order) if is_curve else in_order(batches, self.schema, self.order)
        moved: list[pa.RecordBatch] = rows.to_batches()
        return moved


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
