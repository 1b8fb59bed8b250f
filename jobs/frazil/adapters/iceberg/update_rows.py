"""Write rows of data files anew with some of their columns changed, in one task (docs/decisions/0041)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from frazil.adapters.iceberg.null_lists import keep_nulls
from frazil.adapters.iceberg.probe import NAME_MAPPING
from frazil.adapters.iceberg.rows_at import rows_at
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.taken_columns import LocalColumns
from frazil.adapters.iceberg.windows import BATCH_BYTES
from frazil.formats.arrow import project
from frazil.materialize.ingest.storage import open_storage
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import WrittenFile
from frazil.model.updates import NULL, RowUpdates, TakenColumns, UpdateTask
from frazil.modes.wanted import Numbers, as_numbers


def update_rows(task: UpdateTask) -> list[WrittenFile]:
    """Return the files of the rows as they are now to be. Raises CatalogError where files cannot be read."""
    keep_nulls()
    target = task.target
    files = DataFileWriter(target, storage=task.storage, prefix=task.prefix, target_bytes=task.target_bytes)
    io = open_storage(task.storage, target.location, table_properties=target.properties)
    mapping = target.properties.get(NAME_MAPPING)
    source = _Source(
        target.identifier,
        io,
        Schema.model_validate_json(target.schema_json),
        None if mapping is None else parse_mapping_from_json(mapping),
        task.updates.paths,
    )
    with TemporaryDirectory(prefix="frazil-update-", ignore_cleanup_errors=True) as folder:
        updating = _Updating(source, task.updates, Path(folder))
        for rows in updating.rows():
            files.add(rows)
    return list(files.close())


@dataclass(frozen=True, slots=True)
class _Source:
    """The data files that rows are read from, with the schema and the name mapping that the table has now."""

    identifier: str
    io: FileIO
    schema: Schema
    mapping: NameMapping | None
    paths: Sequence[str]

    def read(self, file: Numbers, position: Numbers, projection: Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these places, which are in ascending order, with the types that they are written with."""
        numbers, starts = np.unique(file, return_index=True)
        types = schema_to_pyarrow(projection)
        with reading(self.identifier):
            for number, positions in zip(numbers.tolist(), np.split(position, starts[1:]), strict=False):
                for rows in rows_at(self.io, self.paths[number], positions, projection, self.mapping):
                    yield project(rows, types)


@dataclass(slots=True)
class _Updating:
    source: _Source
    updates: RowUpdates
    folder: Path
    _taken: list[LocalColumns] = field(init=False)

    def __post_init__(self) -> None:
        self._taken = [self._on_disk(n, each) for n, each in enumerate(self.updates.taken) if len(each.row)]

    def _on_disk(self, number: int, taken: TakenColumns) -> LocalColumns:
        file, position = as_numbers(taken.file), as_numbers(taken.position)
        order = np.lexsort((position, file))
        batches = self.source.read(file[order], position[order], self.source.schema.select(*taken.columns))
        return LocalColumns(taken, order, batches, self.folder / f"{number}.arrow")

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows as they are to be written, in small batches."""
        file, position = as_numbers(self.updates.file), as_numbers(self.updates.position)
        order, done = np.lexsort((position, file)), 0
        for batch in self.source.read(file[order], position[order], self.source.schema):
            rows = order[done : done + batch.num_rows]
            done += batch.num_rows
            yield from self._changed(batch, rows)

    def _changed(self, batch: pa.RecordBatch, rows: Numbers) -> Iterator[pa.RecordBatch]:
        """Yield the batch with its changes, halved until it is small with what it takes from other rows."""
        places = [each.places(rows) for each in self._taken]
        taken = sum(each.bytes_at(at[at >= 0]) for each, at in zip(self._taken, places, strict=True))
        if len(rows) > 1 and taken + batch.nbytes > BATCH_BYTES:
            half = len(rows) // 2
            yield from self._changed(batch.slice(0, half), rows[:half])
            yield from self._changed(batch.slice(half), rows[half:])
            return
        for each, at in zip(self._taken, places, strict=True):
            takes = np.flatnonzero(at >= 0)
            if len(takes):
                batch = _with_columns(batch, takes, each.at(at[takes]))
        for name, values in self.updates.set_to.items():
            batch = _with_values(batch, name, as_numbers(values)[rows])
        yield batch


def _with_columns(batch: pa.RecordBatch, rows: Numbers, values: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch in which these rows have the columns of `values`."""
    chosen = np.arange(batch.num_rows)
    chosen[rows] = batch.num_rows + np.arange(len(rows))
    for name in values.schema.names:
        index = batch.schema.get_field_index(name)
        both = pa.concat_arrays([batch.column(index), values.column(name)])
        batch = batch.set_column(index, batch.schema.field(index), both.take(pa.array(chosen)))
    return batch


def _with_values(batch: pa.RecordBatch, name: str, values: Numbers) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    column = batch.schema.field(index)
    numbers = pa.array(values, mask=values == NULL)
    narrow = numbers.cast(pa.int32()) if pa.types.is_date32(column.type) else numbers
    return batch.set_column(index, column, narrow.cast(column.type))
