"""Rows of a data file in the columns that a table has now: those at given positions, or all but these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _to_requested_schema
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table.name_mapping import NameMapping

from frazil.adapters.iceberg.lacking_nulls import LackedNulls
from frazil.adapters.iceberg.parquet_slices import opened_for_dictionaries, slices
from frazil.adapters.iceberg.position_deletes import Positions, left_of
from frazil.adapters.iceberg.undecodable import decoding
from frazil.adapters.iceberg.windows import (
    BATCH_BYTES,
    file_schema,
    gathered,
    in_memory_if_small,
    opened_by_page,
    pieces_of,
    plain_ids,
)
from frazil.materialize.ingest.write import ROW_GROUP_BYTES

_Decode = Callable[[int], Iterator[pa.RecordBatch]]
"""Yields a row group in slices."""


def rows_at(
    io: FileIO, path: str, positions: Positions, projection: Schema, mapping: NameMapping | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these ascending positions, in this order and in small batches.

    Columns are found by their field ids. One that the file lacks has its initial default, or is null. Only row groups
    with such a row are decoded, a slice at a time. A slice may take as many bytes as a row group that is being written:
    to bound it as closely as `verify` does takes three times as much CPU. Raises UndecodableFileError.
    """
    return _rows(io, path, projection, mapping, partial(_parts_at, positions=positions))


def rows_without(
    io: FileIO, path: str, deleted: Positions, projection: Schema, mapping: NameMapping | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not at these ascending positions, as `rows_at` does."""
    return _rows(io, path, projection, mapping, partial(_parts_without, deleted=deleted))


def _rows(
    io: FileIO,
    path: str,
    projection: Schema,
    mapping: NameMapping | None,
    chosen: Callable[[pq.FileMetaData, _Decode], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    with decoding(io, path), io.new_input(path).open() as opened:
        stream = in_memory_if_small(opened)
        parquet = opened_by_page(stream, len(projection.field_ids))
        schema = file_schema(parquet, mapping)
        columns = prune_columns(schema, plain_ids(projection), select_full_types=False)
        names = [column.name for column in columns.columns] or parquet.schema_arrow.names[:1]
        nulls = LackedNulls.of(projection, schema)
        dictionaries = opened_for_dictionaries(stream, parquet.metadata)

        def decode(group: int) -> Iterator[pa.RecordBatch]:
            return slices(parquet, dictionaries, group, names, BATCH_BYTES, slice_bytes=ROW_GROUP_BYTES)

        parts = chosen(parquet.metadata, decode)
        for rows in gathered(parts):
            for piece in pieces_of(rows.combine_chunks(), nulls):
                yield _to_requested_schema(
                    projection, columns, piece, downcast_ns_timestamp_to_us=True, allow_timestamp_tz_mismatch=True
                )


def _parts_at(file: pq.FileMetaData, decode: _Decode, positions: Positions) -> Iterator[pa.RecordBatch]:
    for group, start, end in _row_groups(file):
        first, last = np.searchsorted(positions, [start, end])
        if first < last:
            yield from _chosen(decode(group), positions[first:last] - start)


def _parts_without(file: pq.FileMetaData, decode: _Decode, deleted: Positions) -> Iterator[pa.RecordBatch]:
    for group, start, end in _row_groups(file):
        first, last = np.searchsorted(deleted, [start, end])
        if last - first < end - start:
            yield from left_of(decode(group), 0, deleted[first:last] - start)


def _row_groups(file: pq.FileMetaData) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each row group, and the positions of its rows: from the first one up to the last."""
    end = 0
    for group in range(file.num_row_groups):
        start, end = end, end + file.row_group(group).num_rows
        yield group, start, end


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
