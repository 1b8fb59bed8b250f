"""Rows of tables in Spark's Python workers: read from data files, and written to new ones.

Both are functions from Arrow batches to Arrow batches, as Spark's `mapInArrow` calls them in each task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.allocators import peak_given_back
from frazil.adapters.iceberg.nested_values import keep_nested_values
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.adapters.spark.worker import trim
from frazil.formats.arrow import project
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.changed_rows import RowsOfFile
from frazil.model.errors import FrazilError
from frazil.model.ingested import WriteTarget, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.secret import SettingValue

RESULT = pa.schema([pa.field("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Data files of one table, in a share for each task, and the columns to read, in Spark's types.

    Rows that `among` leaves out are not needed.
    """

    target: WriteTarget
    storage: Mapping[str, SettingValue]
    shares: Sequence[Sequence[RowsOfFile]]
    schema: pa.Schema
    among: Sequence[Among] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the shares whose numbers are in the first column."""
        trim()
        keep_nested_values()
        wanted = self.wanted
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in self.rows_of(self.shares[number]):
                    yield with_values(rows, wanted)

    @property
    def wanted(self) -> Mapping[str, pa.Array]:
        """The values that rows must have, by column."""
        return {each.name: each.values(self.schema.field(each.name).type) for each in self.among}

    @property
    def source(self) -> WholeRows:
        whole = WholeRows.of(self.target, self.storage)
        return replace(whole, schema=whole.schema.select(*self.schema.names))

    def rows_of(self, files: Sequence[RowsOfFile]) -> Iterator[pa.RecordBatch]:
        source = self.source
        for file in files:
            for rows in _live(source, file):
                yield as_spark_has_it(rows, self.schema)


def _live(source: WholeRows, file: RowsOfFile) -> Iterator[pa.RecordBatch]:
    if isinstance(file, StoredFile):
        return source.read_without(file.path, source.deleted_in(file))
    lost = np.setdiff1d(source.deleted_in(file.later), source.deleted_in(file.file), assume_unique=True)
    return source.read_only(file.file.path, lost)


@dataclass(frozen=True, slots=True)
class FilesOf:
    """Writes rows to data files of a table. What a task wrote is its one row, pickled, or the error that it met."""

    target: WriteTarget
    storage: Mapping[str, SettingValue]
    prefix: str
    target_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield as_row(self.result(batches))

    def result(self, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...] | FrazilError:
        """Write all rows, and return the files."""
        trim()
        keep_nested_values()
        with peak_given_back():
            return self._written(batches)

    def _written(self, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...] | FrazilError:
        files = DataFileWriter(self.target, storage=self.storage, prefix=self.prefix, target_bytes=self.target_bytes)
        try:
            for batch in batches:
                if batch.num_rows:
                    files.add(project(batch, files.arrow_schema))
            return files.close()
        except FrazilError as failure:
            return failure


FILE, POSITION = "__file", "__position"
"""The columns with the place of a stored row: the number of its file, and its position in it."""

GONE = "__gone"
"""The column that says that a group has no rows any more, if there is one."""


@dataclass(frozen=True, slots=True)
class Among:
    """A column whose values must be among those of the only column of some files."""

    name: str
    files: TableFiles

    def values(self, kind: pa.DataType) -> pa.Array:
        """Return these values, each once."""
        found = [rows.column(0) for share in self.files.shares for rows in self.files.rows_of(share)]
        return pc.unique(pa.chunked_array(found, self.files.schema.field(0).type).cast(kind))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The live rows of a table with their places, in Spark's types."""

    files: TableFiles

    @property
    def schema(self) -> pa.Schema:
        schema = self.files.schema
        return schema.append(pa.field(FILE, pa.int64())).append(pa.field(POSITION, pa.int64()))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the shares whose numbers are in the first column. Files are numbered over all shares."""
        trim()
        keep_nested_values()
        firsts = np.cumsum([0, *(len(share) for share in self.files.shares)])
        wanted = self.files.wanted
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for place, file in enumerate(self.files.shares[number]):
                    for rows in self._rows(file, int(firsts[number]) + place):
                        yield with_values(rows, wanted)

    def _rows(self, file: StoredFile, number: int) -> Iterator[pa.RecordBatch]:
        source = self.files.source
        deleted = source.deleted_in(file)
        live = np.delete(np.arange(file.rows), deleted) if len(deleted) else np.arange(file.rows)
        done = 0
        for rows in source.read_without(file.path, deleted):
            there = as_spark_has_it(rows, self.files.schema)
            places = live[done : done + rows.num_rows]
            done += rows.num_rows
            columns = [*there.columns, pa.array(np.full(len(places), number)), pa.array(places)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def with_values(rows: pa.RecordBatch, wanted: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return the rows whose columns have these values. Null is a value as others."""
    for name, values in wanted.items():
        rows = rows.filter(pc.is_in(rows.column(name), value_set=values))
    return rows


@dataclass(frozen=True, slots=True)
class Merged:
    """What a task wrote of merged groups, and the places of the stored rows that they take the place of."""

    files: tuple[WrittenFile, ...]
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MergedFilesOf:
    """Writes merged groups to data files, and returns the places of the rows that they were merged with.

    With `apart`, what has a place is no row to write.
    """

    files: FilesOf
    apart: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        places: list[pa.RecordBatch] = []
        divided = self._apart if self.apart else self._without_places
        files = self.files.result(divided(batches, places))
        if isinstance(files, FrazilError):
            yield as_row(files)
            return
        found = pa.Table.from_batches(places, _PLACES).drop_null()
        yield as_row(Merged(files, found.column(0).to_numpy(), found.column(1).to_numpy()))

    def _without_places(
        self, batches: Iterable[pa.RecordBatch], places: list[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places.append(batch.select([FILE, POSITION]).cast(_PLACES))
            if GONE in batch.schema.names:
                batch = batch.filter(pc.invert(batch.column(GONE))).drop_columns([GONE])  # noqa: PLW2901
            yield batch.drop_columns([FILE, POSITION])

    def _apart(self, batches: Iterable[pa.RecordBatch], places: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            has_place = batch.column(POSITION).is_valid()
            places.append(batch.select([FILE, POSITION]).filter(has_place).cast(_PLACES))
            yield batch.drop_columns([FILE, POSITION]).filter(pc.invert(has_place))


_PLACES = pa.schema([pa.field(FILE, pa.int64()), pa.field(POSITION, pa.int64())])


def as_row(result: object) -> pa.RecordBatch:
    """Return what a task found as its one row."""
    return pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], schema=RESULT)


def as_spark_has_it(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of a table in the columns and types in which Spark takes them. A table has its own order of them."""
    arrays = [_fitted(rows.column(field.name), field.type) for field in schema]
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
