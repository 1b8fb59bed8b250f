"""Rows of a data file in a range of offsets, read in small batches.

PyIceberg reads through Arrow's datasets, which hold whole row groups several times over (350 MB for 1,600 rows of 10 KB
each), whatever batch size they are given. Parquet's own reader decodes page by page and holds about 30 MB of a row
group of 120 MB, whatever the size of its values, if it reads without `pre_buffer` and with a buffer, and if pages are
small (`materialize/ingest/write.py`). Of a file with larger pages, it holds the largest page up to three times. How
many rows it may decode at once: `parquet_slices.py`. PyIceberg's own code does projection and schema evolution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io.pyarrow import (
    _get_column_projection_values,
    _to_requested_schema,
    expression_to_pyarrow,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import ListType, MapType, NestedField, StructType

from frazil.adapters.parquet_slices import opened_for_dictionaries, slices
from frazil.formats.null_bytes import null_bytes_of_row

BATCH_BYTES = 4 << 20

BUFFER_BYTES = 16 << 20
LEAST_BUFFER_BYTES = 64 << 10
"""Read-ahead in a file, shared by the columns that are read. On S3 each part is a request."""


@dataclass(frozen=True, slots=True)
class Range:
    """Rows that meet `condition`, which implies that the column with this field id lies in `[start, end)`."""

    field_id: int
    start: int
    end: int
    condition: BooleanExpression


def can_read(task: FileScanTask) -> bool:
    """Whether the file can be read on its own: rows that delete files take out are left to the library."""
    return task.file.file_format == FileFormat.PARQUET and not task.delete_files


def rows_in(table: Table, task: FileScanTask, projection: Schema, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The file's rows in the projection's columns."""
    metadata = table.metadata
    with table.io.new_input(task.file.file_path).open() as stream:
        parquet = _opened(stream, len(projection.field_ids))
        schema = pyarrow_to_schema(
            parquet.schema_arrow, table.name_mapping(), downcast_ns_timestamp_to_us=True, format_version=2
        )
        spec = metadata.specs().get(task.file.spec_id)
        missing = _get_column_projection_values(task.file, projection, table.schema(), spec, schema.field_ids)
        columns = prune_columns(schema, _ids(projection, table.schema(), wanted), select_full_types=False)
        condition = _condition(table, schema, wanted, missing)
        names = [column.name for column in columns.columns]
        nulls = _null_bytes(projection, schema)
        dictionaries = opened_for_dictionaries(stream, parquet.metadata)
        for group in _groups(parquet, schema.find_column_name(wanted.field_id), wanted):
            for batch in _batches(slices(parquet, dictionaries, group, names, BATCH_BYTES), 0):
                kept = batch.filter(condition).combine_chunks()
                for part in (p for whole in kept.to_batches() for p in _pieces(whole, nulls)) if kept.num_rows else ():
                    yield _to_requested_schema(
                        projection,
                        columns,
                        part,
                        downcast_ns_timestamp_to_us=True,
                        projected_missing_fields=missing,
                        allow_timestamp_tz_mismatch=True,
                    )


def _opened(stream: Any, columns: int) -> pq.ParquetFile:
    """Read pages as they are needed: by default, the library reads whole row groups ahead."""
    return pq.ParquetFile(stream, pre_buffer=False, buffer_size=max(BUFFER_BYTES // columns, LEAST_BUFFER_BYTES))


def _ids(projection: Schema, schema: Schema, wanted: Range) -> set[int]:
    """The fields to read; the library takes lists and maps by their elements."""
    plain = {n for n in projection.field_ids if not isinstance(projection.find_type(n), ListType | MapType)}
    return plain | set(extract_field_ids(bind(schema, wanted.condition, case_sensitive=True)))


def _condition(table: Table, schema: Schema, wanted: Range, missing: dict[int, Any]) -> Any:
    bound = bind(table.schema(), wanted.condition, case_sensitive=True)
    in_file = translate_column_names(bound, schema, case_sensitive=True, projected_field_values=missing)
    return expression_to_pyarrow(bind(schema, in_file, case_sensitive=True), schema)


def _null_bytes(projection: Schema, schema: Schema) -> int:
    """Return the bytes of a row in the fields that a file lacks: a null of fixed(n) takes n."""
    lacking = _lacking(projection.fields, set(schema.field_ids))
    return sum(null_bytes_of_row(schema_to_pyarrow(Schema(each))) for each in lacking)


def _lacking(fields: Sequence[NestedField], there: Collection[int]) -> Iterator[NestedField]:
    for field in fields:
        if field.field_id not in there:
            yield field
        elif isinstance(field.field_type, StructType):
            yield from _lacking(field.field_type.fields, there)


def _groups(parquet: pq.ParquetFile, column: str | None, wanted: Range) -> Iterator[int]:
    """Row groups that may hold rows of the range, by their statistics."""
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        chunks = (group.column(n) for n in range(group.num_columns))
        found = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == column), None)
        if found is None or not found.has_min_max or (found.min < wanted.end and found.max >= wanted.start):
            yield number


def _batches(parts: Iterator[pa.RecordBatch], added: int) -> Iterator[pa.Table]:
    """Gather small slices, and cut large ones: filtering and projecting copy them, and add `added` bytes to a row."""
    gathered: list[pa.RecordBatch] = []
    held = 0
    for part in parts:
        for piece in _pieces(part, added):
            size = _size(piece, added)
            if gathered and held + size > BATCH_BYTES:
                yield pa.Table.from_batches(gathered)
                gathered, held = [], 0
            gathered.append(piece)
            held += size
    if gathered:
        yield pa.Table.from_batches(gathered)


def _pieces(part: pa.RecordBatch, added: int) -> Iterator[pa.RecordBatch]:
    if part.num_rows <= 1 or _size(part, added) <= BATCH_BYTES:
        yield part
        return
    half = part.num_rows // 2
    yield from _pieces(part.slice(0, half), added)
    yield from _pieces(part.slice(half), added)


def _size(part: pa.RecordBatch, added: int) -> int:
    size: int = part.nbytes + part.num_rows * added
    return size
