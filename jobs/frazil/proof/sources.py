"""Which record a row came from: the columns that name its topic, partition and offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.partition_numbers import PARTITIONS, PartitionNumbers
from frazil.model.progress import PartitionProgress, TableState
from frazil.model.spec import TableSpec
from frazil.proof.tally import Tallies, TopicPartition, each_partition


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

    def places(self, rows: pa.RecordBatch, numbers: PartitionNumbers) -> list[pa.Int64Array]:
        """Return the number of each row's partition, and its offset; the number is null without a topic."""
        partition, offset = (rows.column(name).cast(pa.int64()) for name in (self.partition, self.offset))
        return [partition if self.topic is None else numbered(numbers, rows.column(self.topic), partition), offset]

    def by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each topic. Rows that lack a topic and need one are left out."""
        if rows.num_rows == 0:
            return
        if self.topic is None:
            yield self.unnamed_topic or "", rows
            return
        names = rows.column(self.topic)
        if self.unnamed_topic is not None:
            names = pc.fill_null(names, self.unnamed_topic)
        for name in pc.unique(names).drop_null().to_pylist():
            yield name, rows.filter(pc.equal(names, name))


DEAD_LETTER_SOURCE = SourceColumns("topic", "partition", "offset")


def numbered(numbers: PartitionNumbers, topic: pa.Array, partition: pa.Array) -> pa.Int64Array:
    """Return the number of each row's partition among those of several topics; null for a row without a source."""
    place = pc.index_in(topic, value_set=pa.array(numbers.topics, topic.type))
    if numbers.unnamed is not None:
        place = pc.if_else(topic.is_valid(), place, numbers.topics.index(numbers.unnamed))
    return pc.add(pc.multiply(place.cast(pa.int64()), PARTITIONS), partition.cast(pa.int64()))


def source_columns(spec: TableSpec, state: TableState) -> SourceColumns:
    """Return the source columns of a table in this state."""
    prefix = spec.metadata.prefix
    topic = prefix + "topic" if len(state.sources) > 1 else None
    return SourceColumns(topic, prefix + "partition", prefix + "offset", state.topic_of_unnamed_rows)


def progress_by_source(state: TableState) -> dict[TopicPartition, PartitionProgress]:
    return {(source.topic, number): p for source in state.sources for number, p in sorted(source.partitions.items())}


def add_batch(tallies: Tallies, columns: SourceColumns, batch: pa.RecordBatch) -> None:
    """Add rows to the tallies by their source. The batch has the source columns."""
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
