"""Streams the partition and offset columns of a table, and adds them up by source partition."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.proof.sources import SourceColumns, progress_by_source, source_columns
from frazil.proof.tally import Tallies, Tally, each_partition

Watch = Callable[[str, int, int], None]
"""Called during long work with its name, how much is done, and the total."""


def tally_rows(
    view: TableView, spec: TableSpec, state: TableState, *, without: Collection[str], watch: Watch
) -> Tallies:
    """Add up the rows of the head, except those in the files `without`, which cannot be read."""
    columns = source_columns(spec, state)
    tallies = Tallies({at: Tally(p.origin, p.next) for at, p in progress_by_source(state).items()})
    scan = TableScan(view, columns=columns.names, without=without)
    for batch in scan.batches():
        add_batch(tallies, columns, batch)
        watch("rows", tallies.rows, scan.rows)
    return tallies


def add_batch(tallies: Tallies, columns: SourceColumns, batch: pa.RecordBatch) -> None:
    tallies.rows += batch.num_rows
    known, unsourced = _known(columns, batch)
    tallies.unsourced += batch.num_rows - known.num_rows
    tallies.partly_sourced += batch.num_rows - known.num_rows - unsourced
    for topic, part in columns.by_topic(known):
        partitions = _numbers(part.column(columns.partition))
        offsets = _numbers(part.column(columns.offset))
        for number, where in each_partition(partitions):
            tallies.add(topic, number, offsets if where is None else offsets[where])


def _known(columns: SourceColumns, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Return the rows with a source, and the count of rows without any part of one."""
    if not any(batch.column(name).null_count for name in columns.required):
        return batch, 0
    there = [pc.is_valid(batch.column(name)) for name in columns.required]
    some = pc.sum(reduce(pc.or_, there)).as_py() or 0
    return batch.filter(reduce(pc.and_, there)), batch.num_rows - some


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
