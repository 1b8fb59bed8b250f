"""The values of a partition field or sort field, computed from a column."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.transforms import MonthTransform, TruncateTransform, YearTransform

_FIRST = -(2**63) + 1
"""The first time that NumPy knows: the number before it says that there is none."""


def transformed(batch: pa.RecordBatch, schema: Schema, source_id: int, transform: Any) -> pa.Array:
    """Return the values in Iceberg's representation, such as dates as days and timestamps as microseconds."""
    values = _column(batch, str(schema.find_column_name(source_id)))
    if isinstance(transform, TruncateTransform) and pa.types.is_large_binary(values.type):
        values = values.cast(pa.binary())  # the only kind of bytes that the library cuts
    found = _internal(transform.pyarrow_transform(schema.find_field(source_id).field_type)(values))
    if isinstance(transform, YearTransform | MonthTransform) and found.null_count > values.null_count:
        return _periods(values, "Y" if isinstance(transform, YearTransform) else "M")
    return found


def _periods(values: pa.Array, unit: Literal["Y", "M"]) -> pa.Array:
    """Return the years or months since 1970, also those that the library returns as null, such as of 262144."""
    given = "D" if pa.types.is_date32(values.type) else "us"
    numbers = _internal(values).cast(pa.int64())
    times = np.maximum(pc.fill_null(numbers, 0).to_numpy(), _FIRST).astype(f"datetime64[{given}]")
    periods = times.astype(f"datetime64[{unit}]").astype(np.int32)
    return pa.array(periods, mask=pc.is_null(values).to_numpy(zero_copy_only=False))


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
