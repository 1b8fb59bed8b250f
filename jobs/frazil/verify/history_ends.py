"""Do the rows of a history end where the next record of their key is? For tables with `write: history` (decision 0036).

The next record is a row of the table, or a delete, which only Kafka has. So the deletes that Kafka has are put between
the rows of their keys. A row that ends earlier may have been ended by a delete that Kafka does not have any more. So
may one that ends later, if offsets order the records: timestamps may decrease from one delete to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.model.partition_numbers import PartitionNumbers
from frazil.modes.order import Flags
from frazil.modes.ordered_history import FIRST_OF_ITS_TIME
from frazil.modes.validity import OPEN, VALID_TO
from frazil.modes.wanted import Numbers, as_numbers
from frazil.proof.sources import SourceColumns
from frazil.proof.tally import TopicPartition, bitmap_of, each_partition
from frazil.proof.verification import Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.first_offsets import OffsetsFirst
from frazil.verify.held_rows import LEAST, HeldRows, Rows
from frazil.verify.intervals import interval_rows
from frazil.verify.judging import Judge
from frazil.verify.keys import read_again
from frazil.verify.row_comparison import RowComparison

MOST_HELD = 2_000_000
"""So many deletes take 80 MB, and so many rows 112 MB; three times that while they are compared."""

_OF_DELETES, _OF_ROWS = 5, 7


@dataclass(frozen=True, slots=True)
class ComparedEnds:
    """The rows of a partition that end too late, by their offsets, and those that another delete may have ended.

    These end `early`, or `later` than at the delete that follows in Kafka.
    """

    source: TopicPartition
    late: Numbers
    early: Numbers
    later: Numbers


def ends_late(source: TopicPartition, offset: int) -> Discrepancy:
    """Return the finding that a row ends too late."""
    what = f"{VALID_TO} is after the next record of the key in Kafka"
    return Discrepancy(FindingKind.WRONG_INTERVAL, f"{source[0]}-{source[1]}@{offset}", what, (offset,))


class HistoryEnds:
    """The deletes in Kafka, of as many keys as fit, and what they say of the rows of their keys.

    `by_time`: a column orders the records of a key, but for those of `first`; else their offsets do.
    """

    def __init__(
        self,
        rows: TableScan,
        source: SourceColumns,
        numbers: PartitionNumbers,
        *,
        by_time: bool,
        first: OffsetsFirst,
    ) -> None:
        self._first = first
        self._numbers = numbers
        self._rows = rows
        self._source = source
        self._by_time = by_time
        self._start = LEAST
        self._held = HeldRows(LEAST, most=MOST_HELD)

    def add(self, deletes: Rows) -> None:
        """Add deletes: the halves of the identity, time, number of the partition, and offset."""
        self._held.add(deletes)

    def goes_on(self) -> bool:
        """Return whether there are more keys, for which the records must be read again."""
        if self._held.end is None:
            return False
        self._start = self._held.end
        self._held = HeldRows(self._start, most=MOST_HELD)
        return True

    def compared(self) -> Iterator[ComparedEnds]:
        """Compare the rows of the keys that are held, those of each partition."""
        deletes, start, stop = self._held.rows(columns=_OF_DELETES), self._start, self._held.end
        while True:
            held = HeldRows(start, most=MOST_HELD, stop=stop)
            for batch in self._rows.batches():
                held.add(interval_rows(batch, self._source, self._numbers))
            inside = (deletes[0] >= start) & (True if held.end is None else deletes[0] < held.end)
            yield from self._compared(held.rows(columns=_OF_ROWS), deletes[:, inside])
            if held.end == stop:
                return
            assert held.end is not None  # noqa: S101 - rows did not fit
            start = held.end

    def _compared(self, rows: Rows, deletes: Rows) -> Iterator[ComparedEnds]:
        _, _, _, end, partition, offset, _ = rows
        expected, by_delete = expected_ends(rows, _with_first(rows, deletes, self._first), by_time=self._by_time)
        by_offset = self._first.has(partition, offset) if self._by_time else np.ones(len(offset), np.bool_)
        is_late, may_be = end > expected, by_delete & by_offset & (end < OPEN)
        kinds = (is_late & ~may_be, end < expected, is_late & may_be)
        for number, where in each_partition(partition):
            here = np.ones(len(partition), np.bool_) if where is None else where
            late, early, later = (np.sort(offset[here & kind]) for kind in kinds)
            yield ComparedEnds(self._numbers.source(number), late, early, later)


def expected_ends(rows: Rows, deletes: Rows, *, by_time: bool) -> tuple[Numbers, Flags]:
    """Return where each row ends if there are no other deletes, and whether it ends at a delete.

    It ends at the next record of its key, or is `OPEN`.
    """
    events = [np.concatenate(pair) for pair in zip(rows[[0, 1, 2, 4, 5]], deletes, strict=True)]
    first, second, time, partition, offset = events
    is_delete = np.repeat([0, 1], [rows.shape[1], deletes.shape[1]])
    order = np.lexsort((is_delete, offset, partition, *([time] if by_time else []), second, first))
    first, second, time = first[order], second[order], time[order]
    follows = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    ends = np.full(len(order), OPEN, np.int64)
    ends[:-1] = np.where(follows, np.maximum(time[1:], time[:-1]), OPEN)
    at_delete = np.zeros(len(order), np.bool_)
    at_delete[:-1] = follows & (is_delete[order][1:] == 1)
    of_each, by_delete = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    of_each[order], by_delete[order] = ends, at_delete
    return of_each[: rows.shape[1]], by_delete[: rows.shape[1]]


def _with_first(rows: Rows, deletes: Rows, first: OffsetsFirst) -> Rows:
    """Return the deletes with those that offsets order as what is left of them: the end of the row before each.

    Others of these left no trace. Their time is not before that of the row, and is the first thing at that time.
    """
    if not first:
        return deletes
    row, delete = rows[:, first.has(*rows[4:6])], deletes[:, first.has(*deletes[3:5])]
    events = np.concatenate([row[[0, 1, 2, 4, 5]], delete], axis=1)
    of_row = np.repeat([True, False], [row.shape[1], delete.shape[1]])
    order = np.lexsort((events[4], events[3], events[1], events[0]))
    events, of_row = events[:, order], of_row[order]
    same = (events[:2, 1:] == events[:2, :-1]).all(axis=0)
    ending = 1 + np.flatnonzero(same & of_row[:-1] & ~of_row[1:])
    left, before = events[:, ending], events[:, ending - 1]
    left[2] = np.maximum(left[2], before[2])
    left[3:] = np.where(left[2] > before[2], FIRST_OF_ITS_TIME, before[3:])
    return np.concatenate([deletes[:, ~first.has(*deletes[3:5])], left], axis=1)


@dataclass(slots=True)
class DeleteComparison:
    """The records of a partition that delete a key. Each is read again in a later pass."""

    rows_are_missing: ClassVar[bool] = True
    """A record that is no row, and could be one, is missing."""

    source: TopicPartition
    tables: Sequence[RowComparison]
    ends: HistoryEnds
    judge: Judge
    seen: BitMap64 = field(default_factory=BitMap64)

    def add(self, decoded: DecodedRecords) -> int:
        """Add the deletes, and return how many there are."""
        if decoded.deletes is None:
            return 0
        deletes = decoded.deletes
        self.seen |= bitmap_of(as_numbers(deletes.offset))
        columns = (deletes.first, deletes.second, *deletes.order, deletes.partition, deletes.offset)
        self.ends.add(np.array([as_numbers(each) for each in columns]))
        return len(deletes)

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None:
        """Add the records of a later pass."""
        del start, end
        for decoded in read_again(self.judge, self.source, self.seen, chunks):
            self.add(decoded)
