"""The interval in which a row is valid, as a task writes it that does not know what follows (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from frazil.materialize.ingest.dead_rows import timestamps
from frazil.modes.validity import IS_CURRENT, VALID_FROM, VALID_TO, begins
from frazil.records import Records


def valid_from(records: Records, row_schema: pa.Schema) -> pa.Array:
    """Return the timestamps of records. One without a timestamp has 1970, or the time of the record before it."""
    kind = row_schema.field(VALID_FROM).type
    return timestamps(records.timestamps_ms, kind).fill_null(pa.scalar(0, kind))


def valid_from_column(values: pa.Array, row_schema: pa.Schema) -> pa.Array:
    """Return the times of records in a column of their values."""
    return begins(values).cast(row_schema.field(VALID_FROM).type)


def newest_rows(begin: pa.Array) -> Mapping[str, pa.Array]:
    """Return the columns of rows that are valid from `begin` on."""
    return {
        VALID_FROM: begin,
        VALID_TO: pa.nulls(len(begin), begin.type),
        IS_CURRENT: pa.repeat(pa.scalar(value=True), len(begin)),
    }
