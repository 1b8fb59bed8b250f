"""Columns that rows take from other rows: written to a file of this machine first, then looked up row by row.

Rows and those that they take from are in different orders. The file is mapped into memory, so what is held of it is up
to the operating system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from frazil.model.updates import TakenColumns
from frazil.modes.wanted import Numbers, as_numbers


class LocalColumns:
    """The columns of `TakenColumns`, by the number of the row that takes them."""

    def __init__(self, taken: TakenColumns, order: Numbers, batches: Iterable[pa.RecordBatch], path: Path) -> None:
        """Write the batches to `path`: the rows taken from, in this order of them."""
        lengths, sizes = _written(batches, path)
        if sum(lengths) != len(order):
            raise ValueError(f"{len(order)} rows to take columns from, {sum(lengths)} found")
        row = as_numbers(taken.row)[order]
        self._by_row = np.argsort(row)
        self._rows = row[self._by_row]
        self._begins = np.cumsum([0, *lengths])
        self._bytes_of_a_row = np.array(sizes, np.int64) // np.maximum(np.array(lengths, np.int64), 1)
        self._file = ipc.open_file(pa.memory_map(str(path))) if lengths else None

    def places(self, rows: Numbers) -> Numbers:
        """Return where the columns of these rows are; -1 for a row that takes none."""
        found = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        return np.where(self._rows[found] == rows, self._by_row[found], -1)

    def bytes_at(self, places: Numbers) -> int:
        """Return about how many bytes the columns at these places have."""
        return int(self._bytes_of_a_row[self._batch_of(places)].sum())

    def at(self, places: Numbers) -> pa.RecordBatch:
        """Return the columns at these places, of which there is at least one."""
        assert self._file is not None  # noqa: S101 - there is a place
        by_place = np.argsort(places, kind="stable")
        ascending = places[by_place]
        batch = self._batch_of(ascending)
        numbers, starts = np.unique(batch, return_index=True)
        parts = [
            self._file.get_batch(number).take(pa.array(within - self._begins[number]))
            for number, within in zip(numbers.tolist(), np.split(ascending, starts[1:]), strict=True)
        ]
        back = np.empty(len(places), np.int64)
        back[by_place] = np.arange(len(places))
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0].take(pa.array(back))

    def _batch_of(self, places: Numbers) -> Numbers:
        return np.searchsorted(self._begins, places, side="right") - 1


def _written(batches: Iterable[pa.RecordBatch], path: Path) -> tuple[Sequence[int], Sequence[int]]:
    """Write an Arrow file. Returns the rows and the bytes of each batch."""
    lengths: list[int] = []
    sizes: list[int] = []
    writer = None
    try:
        for batch in batches:
            writer = writer or ipc.new_file(str(path), batch.schema)
            writer.write_batch(batch)
            lengths.append(batch.num_rows)
            sizes.append(batch.nbytes)
    finally:
        if writer is not None:
            writer.close()
    return lengths, sizes
