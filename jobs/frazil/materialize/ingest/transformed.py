"""The values of a partition field or sort field, computed from a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform


def transformed(batch: pa.RecordBatch, schema: Schema, source_id: int, transform: Any) -> pa.Array:
    """Return the values in Iceberg's representation, such as dates as days and timestamps as microseconds."""
    values = _column(batch, str(schema.find_column_name(source_id)))
    if isinstance(transform, TruncateTransform) and pa.types.is_large_binary(values.type):
        values = values.cast(pa.binary())  # the only kind of bytes that the library cuts
    return _internal(transform.pyarrow_transform(schema.find_field(source_id).field_type)(values))


def _column(batch: pa.RecordBatch, path: str) -> pa.Array:
    first, *rest = path.split(".")
    values = batch.column(first)
    return pc.struct_field(values, rest) if rest else values


def _internal(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    if pa.types.is_timestamp(values.type) or pa.types.is_time64(values.type):
        return values.cast(pa.int64())
    return values
