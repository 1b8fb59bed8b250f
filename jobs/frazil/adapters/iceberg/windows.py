"""Rows of a data file in a range of offsets, read in small batches.

PyIceberg reads through Arrow's datasets, which hold whole row groups several times over (350 MB for 1,600 rows of 10 KB
each), whatever batch size they are given. Parquet's own reader decodes page by page and holds about 30 MB of a row
group of 120 MB, whatever the size of its values, if it reads without `pre_buffer` and with a buffer, and if pages are
small (`materialize/ingest/write.py`). Of a file with larger pages, it holds the largest page up to three times. How
many rows it may decode at once: `parquet_slices.py`. PyIceberg's own code does projection and schema evolution.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io.pyarrow import (
    _get_column_projection_values,
    _to_requested_schema,
    expression_to_pyarrow,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.types import DecimalType, FloatType, IcebergType, IntegerType, ListType, MapType, NestedField, StructType

from frazil.adapters.iceberg.conditions import nested_ids
from frazil.adapters.iceberg.lacking_nulls import LackedNulls
from frazil.adapters.iceberg.parquet_slices import SLICE_BYTES, opened_for_dictionaries, slices
from frazil.adapters.iceberg.position_deletes import left_of, positions_in

BATCH_BYTES = 4 << 20

BUFFER_BYTES = 16 << 20
LEAST_BUFFER_BYTES = 64 << 10
"""Read-ahead in a file, shared by the columns that are read. On S3 each part is a request."""

WHOLE_BYTES = 1 << 20
"""A file up to this size is read in one request, instead of one or two for each column."""

MOST_DIGITS = 38
"""The greatest precision of a decimal (Iceberg specification, "Primitive Types")."""


@dataclass(frozen=True, slots=True)
class Range:
    """Rows that meet `condition`, which implies that the column with this field id, if any, is in `[start, end)`.

    `slice_bytes` is what the rows that are decoded at once may take.
    """

    condition: BooleanExpression
    field_id: int | None = None
    start: int = 0
    end: int = 0
    slice_bytes: int = SLICE_BYTES


def can_read(task: FileScanTask) -> bool:
    """Return whether this module reads the file; PyIceberg reads other formats and equality deletes."""
    by_position = all(file.content is DataFileContent.POSITION_DELETES for file in task.delete_files)
    return task.file.file_format == FileFormat.PARQUET and by_position


def rows_in(table: Table, task: FileScanTask, projection: Schema, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The file's rows in the projection's columns."""
    metadata = table.metadata
    with table.io.new_input(task.file.file_path).open() as opened:
        stream = in_memory_if_small(opened)
        parquet = opened_by_page(stream, len(projection.field_ids))
        schema = file_schema(parquet, table.name_mapping())
        spec = metadata.specs().get(task.file.spec_id)
        missing = _get_column_projection_values(task.file, projection, table.schema(), spec, schema.field_ids)
        bound = bind(table.schema(), wanted.condition, case_sensitive=True)
        ids = plain_ids(projection) | nested_ids(table.schema(), extract_field_ids(bound))
        columns = prune_columns(schema, ids, select_full_types=False)
        condition = _condition(table.schema(), columns, bound, missing)
        names = [column.name for column in columns.columns]
        nulls = LackedNulls.of(projection, schema)
        deleted = positions_in(table.io, task.delete_files, task.file.file_path)
        dictionaries = opened_for_dictionaries(stream, parquet.metadata)
        column = None if wanted.field_id is None else schema.find_column_name(wanted.field_id)
        for group, first_row in _groups(parquet, column, wanted):
            parts = slices(parquet, dictionaries, group, names, BATCH_BYTES, slice_bytes=wanted.slice_bytes)
            for batch in gathered(left_of(parts, first_row, deleted)):
                kept = (batch if condition is None else batch.filter(condition)).combine_chunks()
                for part in pieces_of(kept, nulls):
                    yield _to_requested_schema(
                        projection,
                        columns,
                        part,
                        downcast_ns_timestamp_to_us=True,
                        projected_missing_fields=missing,
                        allow_timestamp_tz_mismatch=True,
                    )


def in_memory_if_small(opened: Any) -> Any:
    size = opened.seek(0, os.SEEK_END)
    opened.seek(0)
    return pa.BufferReader(opened.read(size)) if size <= WHOLE_BYTES else opened


def opened_by_page(stream: Any, columns: int) -> pq.ParquetFile:
    """Read pages as they are needed: by default, the library reads whole row groups ahead."""
    return pq.ParquetFile(stream, pre_buffer=False, buffer_size=max(BUFFER_BYTES // columns, LEAST_BUFFER_BYTES))


def file_schema(parquet: pq.ParquetFile, mapping: NameMapping | None) -> Schema:
    """Return the schema of a file of a table. Most files of a table have the same, which is then made once."""
    return _schema_of(parquet.schema_arrow.serialize().to_pybytes(), mapping.model_dump_json() if mapping else None)


@functools.lru_cache(maxsize=256)
def _schema_of(serialized: bytes, mapping: str | None) -> Schema:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    known = None if mapping is None else parse_mapping_from_json(mapping)
    return pyarrow_to_schema(schema, known, downcast_ns_timestamp_to_us=True, format_version=2)


def plain_ids(projection: Schema) -> set[int]:
    """Return the field ids of a projection; the library takes lists and maps by those of their elements."""
    return {n for n in projection.field_ids if not isinstance(projection.find_type(n), ListType | MapType)}


def _condition(schema: Schema, columns: Schema, bound: BooleanExpression, missing: dict[int, Any]) -> Any:
    """Return a condition on the table's schema as one on these columns of a file; None if all rows meet it."""
    if isinstance(bound, AlwaysTrue):
        return None
    in_file = translate_column_names(bound, columns, case_sensitive=True, projected_field_values=missing)
    widest = Schema(*(_widest(field, schema) for field in columns.fields))
    return expression_to_pyarrow(bind(widest, in_file, case_sensitive=True), widest)


def _widest(field: NestedField, schema: Schema) -> NestedField:
    """Return the field of a file with the table's type, or with as many digits as a decimal can have.

    The library makes values of a condition with the type of the file's column, in which those of a column that was
    widened later may have no place. Arrow compares numbers of different types.
    """
    match field.field_type:
        case DecimalType(scale=scale):
            wider: IcebergType = DecimalType(MOST_DIGITS, scale)
        case StructType(fields=fields):
            wider = StructType(*(_widest(each, schema) for each in fields))
        case IntegerType() | FloatType() if field.field_id in schema.field_ids:
            wider = schema.find_type(field.field_id)
        case other:
            wider = other
    return field.model_copy(update={"field_type": wider})


def _groups(parquet: pq.ParquetFile, column: str | None, wanted: Range) -> Iterator[tuple[int, int]]:
    """Yield row groups that may hold rows of the range, by their statistics, and the position of their first row.

    Statistics of times depend on the writer's unit and choose nothing.
    """
    first_row = 0
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        chunks = (group.column(n) for n in range(group.num_columns))
        found = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == column), None)
        known: Any = found if found is not None and found.has_min_max and isinstance(found.min, int) else None
        if known is None or (known.min < wanted.end and known.max >= wanted.start):
            yield number, first_row
        first_row += group.num_rows


def gathered(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather small slices, and cut large ones: filtering copies them."""
    gathered: list[pa.RecordBatch] = []
    held = 0
    for part in parts:
        for piece in _pieces(part, _size):
            if gathered and held + _size(piece) > BATCH_BYTES:
                yield pa.Table.from_batches(gathered)
                gathered, held = [], 0
            gathered.append(piece)
            held += _size(piece)
    if gathered:
        yield pa.Table.from_batches(gathered)


def pieces_of(kept: pa.Table, nulls: LackedNulls) -> Iterator[pa.RecordBatch]:
    """Cut rows so that they are small with the nulls of fields that the file lacks."""
    for whole in kept.to_batches() if kept.num_rows else ():
        yield from _pieces(whole, lambda part: _size(part) + nulls.bytes_in(part))


def _pieces(part: pa.RecordBatch, size: Callable[[pa.RecordBatch], int]) -> Iterator[pa.RecordBatch]:
    if part.num_rows <= 1 or size(part) <= BATCH_BYTES:
        yield part
        return
    half = part.num_rows // 2
    yield from _pieces(part.slice(0, half), size)
    yield from _pieces(part.slice(half), size)


def _size(part: pa.RecordBatch) -> int:
    return int(part.nbytes)
