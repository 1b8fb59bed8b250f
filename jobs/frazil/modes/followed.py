"""What a mode that follows keys has to know of each record of a batch: its identity, and where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.model.ingested import FollowedRecords
from frazil.model.spec import TableSpec
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.wanted import as_array


@dataclass(frozen=True, slots=True)
class FollowedColumns:
    """The names of the columns that say where a row came from."""

    partition: str
    offset: str

    @classmethod
    def of(cls, spec: TableSpec) -> FollowedColumns:
        return cls(spec.metadata.prefix + "partition", spec.metadata.prefix + "offset")

    @property
    def names(self) -> tuple[str, str]:
        return self.partition, self.offset

    def of_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select([FIRST, SECOND, *self.names])

    def joined(self, parts: Sequence[pa.RecordBatch]) -> FollowedRecords:
        """Return the parts that `of_rows` returned as one."""
        columns = pa.Table.from_batches(parts).columns
        return FollowedRecords(*(as_array(column.to_numpy()) for column in columns))


def followed_records(identities: Sequence[pa.Array], partition: int, offsets: pa.Int64Array) -> FollowedRecords | None:
    """Return records of one partition by the halves of their identity; None if there is none."""
    if not len(offsets):
        return None
    first, second = (as_array(half.to_numpy()) for half in identities)
    partitions = as_array(np.full(len(offsets), partition))
    return FollowedRecords(first, second, partitions, as_array(offsets.to_numpy()))
