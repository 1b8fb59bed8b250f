"""The order of records: columns of longs, of which a greater one is newer (docs/decisions/0036)."""

from __future__ import annotations

import pyarrow as pa


def as_order(values: pa.Array) -> pa.Int64Array:
    """Return int, long, date, timestamp or timestamptz as longs in the same order: a time as its microseconds."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz=values.type.tz))
    return (values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).cast(pa.int64())
