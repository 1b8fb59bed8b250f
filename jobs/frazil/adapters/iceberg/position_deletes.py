"""Position deletes: the rows of data files that a table does not have any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import DataFile, FileFormat

from frazil.modes.wanted import ascending_once

BATCH_ROWS = 100_000

Positions = npt.NDArray[np.int64]


def positions(io: FileIO, deletes: DataFile) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
    """Yield paths of data files, and positions of deleted rows in them; a path may come several times."""
    if deletes.file_format != FileFormat.PARQUET:
        yield from _read_deletes(io, deletes).items()
        return
    with io.new_input(deletes.file_path).open() as stream:
        parquet = pq.ParquetFile(stream)
        for group in range(parquet.metadata.num_row_groups):
            yield from _in_row_group(parquet, group)


def positions_in(io: FileIO, deletes: Iterable[DataFile], path: str) -> Positions:
    """Return the positions of the deleted rows of one data file, ascending."""
    found = [here.to_numpy() for file in deletes for of_file, here in positions(io, file) if of_file == path]
    return ascending_once(found)


def left_of(parts: Iterable[pa.RecordBatch], start: int, deleted: Positions) -> Iterator[pa.RecordBatch]:
    """Yield the parts, which follow each other from the row `start` of a file, without its deleted rows."""
    for part in parts:
        first, last = np.searchsorted(deleted, [start, start + part.num_rows])
        yield part if first == last else _without(part, deleted[first:last] - start)
        start += part.num_rows


def _without(part: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    left = np.ones(part.num_rows, np.bool_)
    left[rows] = False
    return part.filter(pa.array(left))


def _in_row_group(parquet: pq.ParquetFile, group: int) -> Iterator[tuple[str, pa.Array]]:
    """The paths are read only if there are several: most files of deletes are about one data file."""
    paths = parquet.metadata.row_group(group).column(parquet.schema_arrow.get_field_index("file_path")).statistics
    if paths is not None and paths.has_min_max and paths.min == paths.max:
        for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=["pos"]):
            yield paths.min, batch.column("pos")
        return
    for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=["file_path", "pos"]):
        yield from _by_path(batch)


def _by_path(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """A file of position deletes is sorted by path: runs of equal paths are slices."""
    runs = pc.run_end_encode(batch.column("file_path"))
    start = 0
    for path, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield path, batch.column("pos").slice(start, end - start)
        start = end
