"""Write rows of data files anew with some of their columns changed, in one task (docs/decisions/0041)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.nested_values import keep_nested_values
from frazil.adapters.iceberg.taken_columns import LocalColumns
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.adapters.iceberg.windows import BATCH_BYTES
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import WrittenFile
from frazil.model.updates import NULL, RowUpdates, TakenColumns, UpdateTask
from frazil.modes.wanted import Numbers, as_numbers


def update_rows(task: UpdateTask) -> list[WrittenFile]:
    """Return the files of the rows as they are now to be. Raises CatalogError where files cannot be read."""
    keep_nested_values()
    files = DataFileWriter(task.target, storage=task.storage, prefix=task.prefix, target_bytes=task.target_bytes)
    with TemporaryDirectory(prefix="frazil-update-", ignore_cleanup_errors=True) as folder:
        updating = _Updating(WholeRows.of(task.target, task.storage), task.updates, Path(folder))
        for rows in updating.rows():
            files.add(rows)
    return list(files.close())


@dataclass(slots=True)
class _Updating:
    source: WholeRows
    updates: RowUpdates
    folder: Path
    _taken: list[LocalColumns] = field(init=False)

    def __post_init__(self) -> None:
        self._taken = [self._on_disk(n, each) for n, each in enumerate(self.updates.taken) if len(each.row)]

    def _on_disk(self, number: int, taken: TakenColumns) -> LocalColumns:
        file, position = as_numbers(taken.file), as_numbers(taken.position)
        order = np.lexsort((position, file))
        columns = self.source.schema.select(*taken.columns)
        batches = self.source.read(self.updates.paths, file[order], position[order], columns)
        return LocalColumns(taken, order, batches, self.folder / f"{number}.arrow")

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows as they are to be written, in small batches."""
        file, position = as_numbers(self.updates.file), as_numbers(self.updates.position)
        order, done = np.lexsort((position, file)), 0
        for batch in self.source.read(self.updates.paths, file[order], position[order], self.source.schema):
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
