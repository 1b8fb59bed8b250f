"""Rows of tables in Spark's Python workers: read from data files, and written to new ones.

Both are functions from Arrow batches to Arrow batches, as Spark's `mapInArrow` calls them in each task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pyarrow as pa

from frazil.adapters.allocators import peak_given_back
from frazil.adapters.iceberg.null_lists import keep_nulls
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.adapters.spark.worker import trim
from frazil.formats.arrow import project
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.errors import FrazilError
from frazil.model.ingested import WriteTarget, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.secret import SettingValue

RESULT = pa.schema([pa.field("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Data files of one table, in a share for each task, and the columns to read, in Spark's types."""

    target: WriteTarget
    storage: Mapping[str, SettingValue]
    shares: Sequence[Sequence[StoredFile]]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the shares whose numbers are in the first column."""
        trim()
        keep_nulls()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(self.shares[number])

    def _rows(self, files: Sequence[StoredFile]) -> Iterator[pa.RecordBatch]:
        whole = WholeRows.of(self.target, self.storage)
        source = replace(whole, schema=whole.schema.select(*self.schema.names))
        for file in files:
            for rows in source.read_without(file.path, source.deleted_in(file)):
                yield as_spark_has_it(rows, self.schema)


@dataclass(frozen=True, slots=True)
class FilesOf:
    """Writes rows to data files of a table. What a task wrote is its one row, pickled, or the error that it met."""

    target: WriteTarget
    storage: Mapping[str, SettingValue]
    prefix: str
    target_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        trim()
        keep_nulls()
        with peak_given_back():
            result = self._written(batches)
        yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], schema=RESULT)

    def _written(self, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...] | FrazilError:
        files = DataFileWriter(self.target, storage=self.storage, prefix=self.prefix, target_bytes=self.target_bytes)
        try:
            for batch in batches:
                if batch.num_rows:
                    files.add(project(batch, files.arrow_schema))
            return files.close()
        except FrazilError as failure:
            return failure


def as_spark_has_it(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of a table in the types in which Spark takes them."""
    arrays = [_fitted(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if isinstance(column.type, pa.UuidType):
        texts = (None if value is None else str(value) for value in column.to_pylist())
        return pa.array(texts, kind)
    if pa.types.is_fixed_size_binary(column.type) and pa.types.is_string(kind):
        texts = (None if value is None else str(UUID(bytes=value)) for value in column.to_pylist())
        return pa.array(texts, kind)
    return column.cast(kind)
