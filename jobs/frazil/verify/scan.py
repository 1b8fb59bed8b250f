"""Streams the partition and offset columns of a table, and adds them up by source partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan
from frazil.model.progress import PartitionProgress, TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.proof.tally import Tallies, Tally, TopicPartition, each_partition

Watch = Callable[[str, int, int], None]
"""Called during long work with its name, how much is done, and the total."""


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns that say which record a row came from. `topic` is None if the table was read from one topic only.

    `unnamed_topic` is the topic of rows that name none; None if each row must name its topic.
    """

    topic: str | None
    partition: str
    offset: str
    unnamed_topic: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.partition, self.offset) if self.topic is None else (self.topic, self.partition, self.offset)

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that have a value in each row that has a source."""
        return self.names if self.unnamed_topic is None else (self.partition, self.offset)


def source_columns(spec: TableSpec, state: TableState) -> SourceColumns:
    prefix = spec.metadata.prefix
    topic = prefix + "topic" if len(state.sources) > 1 else None
    return SourceColumns(topic, prefix + "partition", prefix + "offset", state.topic_of_unnamed_rows)


DEAD_LETTER_SOURCE = SourceColumns("topic", "partition", "offset")


def progress_by_source(state: TableState) -> dict[TopicPartition, PartitionProgress]:
    return {(source.topic, number): p for source in state.sources for number, p in sorted(source.partitions.items())}


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
    for topic, part in _by_topic(columns, known):
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


def _by_topic(columns: SourceColumns, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if batch.num_rows == 0:
        return
    if columns.topic is None:
        yield columns.unnamed_topic or "", batch
        return
    names = batch.column(columns.topic)
    if columns.unnamed_topic is not None:
        names = pc.fill_null(names, columns.unnamed_topic)
    for name in pc.unique(names).to_pylist():
        yield name, batch.filter(pc.equal(names, name))


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
