"""Rows of a data file at given positions, in the columns that a table has now."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _to_requested_schema, pyarrow_to_schema
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table.name_mapping import NameMapping

from frazil.adapters.iceberg.lacking_nulls import LackedNulls
from frazil.adapters.iceberg.parquet_slices import opened_for_dictionaries, slices
from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.undecodable import decoding
from frazil.adapters.iceberg.windows import BATCH_BYTES, in_memory_if_small, opened_by_page, pieces_of, plain_ids


def rows_at(
    io: FileIO, path: str, positions: Positions, projection: Schema, mapping: NameMapping | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these ascending positions, in this order and in small batches.

    Columns are found by their field ids. One that the file lacks has its initial default, or is null. Only row groups
    with such a row are decoded, a slice at a time. Raises UndecodableFileError.
    """
    with decoding(io, path), io.new_input(path).open() as opened:
        stream = in_memory_if_small(opened)
        parquet = opened_by_page(stream, len(projection.field_ids))
        schema = pyarrow_to_schema(parquet.schema_arrow, mapping, downcast_ns_timestamp_to_us=True, format_version=2)
        columns = prune_columns(schema, plain_ids(projection), select_full_types=False)
        names = [column.name for column in columns.columns] or parquet.schema_arrow.names[:1]
        nulls = LackedNulls.of(projection, schema)
        for part in _parts_at(parquet, opened_for_dictionaries(stream, parquet.metadata), names, positions):
            for piece in pieces_of(pa.Table.from_batches([part]), nulls):
                yield _to_requested_schema(
                    projection, columns, piece, downcast_ns_timestamp_to_us=True, allow_timestamp_tz_mismatch=True
                )


def _parts_at(
    parquet: pq.ParquetFile, dictionaries: pq.ParquetFile, names: list[str], positions: Positions
) -> Iterator[pa.RecordBatch]:
    end = 0
    for group in range(parquet.metadata.num_row_groups):
        start, end = end, end + parquet.metadata.row_group(group).num_rows
        first, last = np.searchsorted(positions, [start, end])
        if first < last:
            parts = slices(parquet, dictionaries, group, names, BATCH_BYTES)
            yield from _chosen(parts, positions[first:last] - start)


def _chosen(parts: Iterator[pa.RecordBatch], positions: Positions) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these positions of parts that follow each other, and read no part after the last one."""
    start = 0
    for part in parts:
        first, last = np.searchsorted(positions, [start, start + part.num_rows])
        if first < last:
            yield part.take(pa.array(positions[first:last] - start))
        if last == len(positions):
            return
        start += part.num_rows
