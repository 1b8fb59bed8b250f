"""What a mode that follows keys has to know of each record of a batch: its identity, its order, where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from frazil.model.columns import Column
from frazil.model.ingested import FollowedRecords
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.spec import TableSpec
from frazil.modes.identified import value_at
from frazil.modes.identity import COLUMNS, FIRST, SECOND
from frazil.modes.order import LEAST, as_order
from frazil.modes.validity import VALID_FROM, VALID_TO, validity_columns
from frazil.modes.wanted import as_array
from frazil.proof.sources import numbered

ONE_TOPIC = PartitionNumbers()


def added_columns(spec: TableSpec) -> tuple[Column, ...]:
    """Return the columns that the write mode adds to those of records."""
    if not spec.follows_keys:
        return ()
    return (*COLUMNS, *validity_columns()) if spec.keeps_history else COLUMNS


@dataclass(frozen=True, slots=True)
class FollowedColumns:
    """The columns that say where a row came from, by name, and those whose values order it before that, by path.

    `order` are columns of int, long, date, timestamp or timestamptz, the most significant first; a null is the least.
    `compares_stored`: the order of stored rows matters, too.
    """

    partition: str
    offset: str
    order: tuple[str, ...] = ()
    end: str | None = None
    """In a history, the end of a row's interval."""
    compares_stored: bool = True
    topic: str | None = None
    numbers: PartitionNumbers = ONE_TOPIC
    """Of several topics, which the column `topic` names, partitions are numbered over all of them."""

    @classmethod
    def of(cls, spec: TableSpec, numbers: PartitionNumbers = ONE_TOPIC) -> FollowedColumns:
        found = cls._of(spec)
        several = numbers.has_several
        return replace(found, topic=f"{spec.metadata.prefix}topic", numbers=numbers) if several else found

    @classmethod
    def _of(cls, spec: TableSpec) -> FollowedColumns:
        partition, offset = spec.metadata.prefix + "partition", spec.metadata.prefix + "offset"
        if spec.keeps_history:
            return cls(partition, offset, (VALID_FROM,), VALID_TO)
        if spec.write == "deduplicate":
            return cls(partition, offset, (spec.metadata.prefix + "timestamp",), compares_stored=False)
        return cls(partition, offset, spec.order)

    def of_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        order = [as_order(value_at(rows, path)).fill_null(LEAST) for path in self.order]
        first, second, partition, offset = rows.select([FIRST, SECOND, self.partition, self.offset]).columns
        if self.topic is not None:
            partition = numbered(self.numbers, rows.column(self.topic), partition)
        names = [FIRST, SECOND, self.partition, self.offset, *map(str, range(len(order)))]
        return pa.RecordBatch.from_arrays([first, second, partition, offset, *order], names=names)

    def joined(self, parts: Sequence[pa.RecordBatch]) -> FollowedRecords:
        """Return the parts that `of_rows` returned as one."""
        columns = pa.Table.from_batches(parts).columns
        first, second, partition, offset, *order = (as_array(column.to_numpy()) for column in columns)
        return FollowedRecords(first, second, partition, offset, tuple(order))


def followed_records(
    identities: Sequence[pa.Array], partition: int, offsets: pa.Int64Array, order: Sequence[pa.Array] = ()
) -> FollowedRecords | None:
    """Return records of one partition, by its number, by the halves of their identity; None if there is none.

    `order` are columns as in `FollowedColumns`, without nulls.
    """
    if not len(offsets):
        return None
    first, second = (as_array(half.to_numpy()) for half in identities)
    partitions = as_array(np.full(len(offsets), partition))
    before = tuple(as_array(as_order(column).to_numpy()) for column in order)
    return FollowedRecords(first, second, partitions, as_array(offsets.to_numpy()), before)
