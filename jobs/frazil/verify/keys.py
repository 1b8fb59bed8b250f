"""Compare the keys of Kafka's records: is the row of each one its newest record? For tables that follow keys.

A record that is no row must have been followed by another one of its key: by the row that the table has, or by a
delete. So of these records the newest one of each key is compared with the key's row (docs/decisions/0036). Offsets
order the records of one partition; if a column orders them, the partitions of a topic are compared together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.model.partition_numbers import PartitionNumbers
from frazil.modes.followed import FollowedColumns
from frazil.modes.identified import value_at
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.order import LEAST, Flags, as_order, is_newer
from frazil.modes.wanted import Numbers, Wanted, as_numbers
from frazil.proof.sources import numbered
from frazil.proof.tally import TopicPartition, bitmap_of, each_partition, offsets_of
from frazil.proof.verification import NAMED, Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.by_identity import ByIdentity, greatest
from frazil.verify.first_offsets import OffsetsFirst
from frazil.verify.identities import HALVES, halves_of
from frazil.verify.judging import Judge
from frazil.verify.row_comparison import RowComparison

Place = tuple[Numbers, Numbers]
"""Numbers of partitions, and offsets."""


@dataclass(frozen=True, slots=True)
class ComparedKeys:
    """What is wrong with the keys whose newest record is in a partition: offsets of records of lost keys, and others.

    `others` has the newest record's offset and the place of the row: by kind, as arrays. `elsewhere` counts the keys
    that have a row from another partition, where offsets of two partitions do not say which record is newer. `deletes`
    counts the keys whose newest record deletes them.
    """

    source: TopicPartition
    lost: Numbers
    others: Mapping[FindingKind, tuple[Numbers, Place]]
    elsewhere: int
    deletes: int
    numbers: PartitionNumbers

    def rows(self) -> Iterator[tuple[TopicPartition, Numbers]]:
        """Yield the offsets of the rows that are wrong, by partition."""
        for _, (partitions, offsets) in self.others.values():
            for number, where in each_partition(partitions):
                yield self.numbers.source(number), offsets if where is None else offsets[where]

    def differences(self, kind: FindingKind) -> Iterator[Discrepancy]:
        """Yield the first few."""
        topic, partition = self.source
        newest, rows = self.others[kind]
        then = "is newer" if kind is FindingKind.STALE_ROW else "deletes it"
        named = (column[:NAMED].tolist() for column in (newest, *rows))
        for at, number, offset in zip(*named, strict=True):
            row_topic, row_partition = source = self.numbers.source(number)
            where = f"offset {offset}" if source == self.source else f"{row_topic}-{row_partition}@{offset}"
            what = f"the row of the record's key is from {where}, and the record {then}"
            yield Discrepancy(kind, f"{topic}-{partition}@{at}", what, (at,))


class NewestRecords:
    """The newest of the records that are no rows, of as many keys as fit. `rows` are those of the table.

    A record is what orders it, its partition, and twice its offset, plus 1 if it deletes its key. `first_stays`: any
    row of the key is right, because the first record stays. All records are newer than those `offsets_first`; of those
    that are newer, the columns say it. Each record begins with whether it is one of these then.
    """

    truncated_at = -1
    """The offset of the last truncate: keys whose newest record is older have no row. Offsets order it."""

    def __init__(
        self,
        numbers: PartitionNumbers,
        rows: TableScan,
        columns: FollowedColumns,
        *,
        first_stays: bool = False,
        offsets_first: OffsetsFirst,
    ) -> None:
        self.columns = columns
        self._first = offsets_first
        self.numbers = numbers
        self._rows = rows
        self._first_stays = first_stays
        self._held = ByIdentity(greatest, columns=self._width)

    @property
    def _width(self) -> int:
        return bool(self._first) + len(self.columns.order) + 2

    @staticmethod
    def read_from(columns: FollowedColumns) -> tuple[str, ...]:
        """Return the columns of the table that `rows` must have."""
        topic = () if columns.topic is None else (columns.topic,)
        return (*HALVES, *topic, columns.partition, columns.offset, *columns.order)

    def add(self, first: Numbers, second: Numbers, record: Sequence[Numbers], *, is_delete: int) -> None:
        *before, offset = record
        if self._first:
            later = ~self._first.has(before[-1], offset)
            before = [later.astype(np.int64), *(np.where(later, each, 0) for each in before[:-1]), before[-1]]
        self._held.add(first, second, *before, 2 * offset + is_delete)

    def goes_on(self) -> bool:
        """Return whether there are more keys, for which the records must be read again. Those that were held go."""
        end = self._held.end
        if end is None:
            self._held = ByIdentity(greatest, columns=self._width, most=0)
            return False
        self._held = ByIdentity(greatest, columns=self._width, start=end)
        return True

    def compared(self) -> Iterator[ComparedKeys]:
        """Compare the keys that are held, those of each partition."""
        found = self._held.combined()
        *before, marked = found.numbers
        partition, offset, is_delete = before[-1], marked >> 1, (marked & 1).astype(np.bool_)
        has_row, row = self._rows_of(Wanted(found.first, found.second), len(marked))
        if self._first:
            is_later, *before = before
            row = self._beside(is_later.astype(np.bool_), row)
        is_truncated = offset <= self.truncated_at
        if self._first:
            is_truncated &= self._first.has(partition, offset)
        compared = has_row & (not self._first_stays)
        elsewhere = compared & (row[-2] != partition) & (not self.columns.order)
        is_older = compared & ~elsewhere & is_newer(list(zip((*before, offset), row, strict=True)), len(marked))
        for number, where in each_partition(partition):
            here = np.arange(len(marked)) if where is None else np.flatnonzero(where)
            lost = here[~(has_row | is_delete | is_truncated)[here]]
            wrong = {
                FindingKind.STALE_ROW: here[is_older[here] & ~is_delete[here]],
                FindingKind.DELETED_KEY: here[is_older[here] & is_delete[here]],
            }
            yield ComparedKeys(
                self.numbers.source(number),
                np.sort(offset[lost]),
                {kind: (offset[which], (row[-2][which], row[-1][which])) for kind, which in wrong.items()},
                int(elsewhere[here].sum()),
                int((is_delete & (~has_row | is_older))[here].sum()),
                self.numbers,
            )

    def _beside(self, is_later: Flags, row: Sequence[Numbers]) -> Sequence[Numbers]:
        """Return the rows as each newest record is compared with them: one that offsets order, by its offset."""
        of_first = np.where(self._first.has(row[-2], row[-1]), 0, np.iinfo(np.int64).max)
        return [*(np.where(is_later, each, of_first) for each in row[:-2]), *row[-2:]]

    def _rows_of(self, wanted: Wanted, count: int) -> tuple[Flags, Sequence[Numbers]]:
        """Return whether each key has a row, and of its newest row what orders it, its partition and its offset."""
        has_row = np.zeros(count, np.bool_)
        newest: list[Numbers] = [np.zeros(count, np.int64) for _ in range(len(self.columns.order) + 2)]
        for batch in self._rows.batches() if count else ():
            first, second, whole = halves_of(batch)
            likely, begin = wanted.candidates(first)
            found = wanted.find(first[likely], second[likely], begin)
            place, *columns = self._with_source(found[found >= 0], whole.take(pa.array(likely[found >= 0])))
            if not len(place):
                continue
            by_place = np.argsort(place, kind="stable")
            at, starts = np.unique(place[by_place], return_index=True)
            of_each = greatest([column[by_place] for column in columns], starts)
            known = list(zip(of_each, (column[at] for column in newest), strict=True))
            is_newest = ~has_row[at] | is_newer(known, len(at))
            for column, values in zip(newest, of_each, strict=True):
                column[at[is_newest]] = values[is_newest]
            has_row[at] = True
        return has_row, newest

    def _with_source(self, place: Numbers, rows: pa.RecordBatch) -> Iterator[Numbers]:
        """Yield the places of the rows that came from a record, what orders them, their partition and offset."""
        columns = self.columns
        partition = rows.column(columns.partition).cast(pa.int64())
        if columns.topic is not None:
            partition = numbered(columns.numbers, rows.column(columns.topic), partition)
        order = [as_order(value_at(rows, path)).fill_null(LEAST) for path in columns.order]
        offset = rows.column(columns.offset).cast(pa.int64())
        is_ours = pc.and_(partition.is_valid(), offset.is_valid())
        for column in (pa.array(place), *order, partition, offset):
            yield column.filter(is_ours).to_numpy()


@dataclass(slots=True)
class KeyComparison:
    """The records of a partition that are no rows, and have a key. Each is read again in a later pass."""

    rows_are_missing: ClassVar[bool] = False
    """A record that is no row may have been followed by another one of its key."""

    source: TopicPartition
    tables: Sequence[RowComparison]
    newest: NewestRecords
    judge: Judge
    seen: BitMap64 = field(default_factory=BitMap64)

    def add(self, decoded: DecodedRecords) -> int:
        """Add records that are no rows, and return how many of them have a key.

        A change event that keeps the row of its key does not say whether there is one.
        """
        self.newest.truncated_at = max(self.newest.truncated_at, *decoded.truncates.tolist(), -1)
        keeping = [as_numbers(each.offset) for each in decoded.incomplete if each.needs_row]
        says = ~np.isin(decoded.row_offsets, np.concatenate([np.empty(0, np.int64), *keeping]))
        rows, offsets = decoded.rows.filter(pa.array(says)), decoded.row_offsets[says]
        first, second = (rows.column(half).to_numpy() for half in (FIRST, SECOND))
        before = [as_order(value_at(rows, path)).to_numpy() for path in self.newest.columns.order]
        number = self.newest.numbers.number(*self.source)
        self._add(first, second, [*before, np.full(len(first), number), offsets], is_delete=0)
        if decoded.deletes is None:
            return len(says)
        deletes = decoded.deletes
        columns = [as_numbers(each) for each in (*deletes.order, deletes.partition, deletes.offset)]
        self._add(as_numbers(deletes.first), as_numbers(deletes.second), columns, is_delete=1)
        return len(says) + len(deletes)

    def _add(self, first: Numbers, second: Numbers, record: Sequence[Numbers], *, is_delete: int) -> None:
        self.seen |= bitmap_of(record[-1])
        self.newest.add(first, second, record, is_delete=is_delete)

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None:
        """Add the records of a later pass."""
        del start, end
        for decoded in read_again(self.judge, self.source, self.seen, chunks):
            self.add(decoded)


def read_again(
    judge: Judge, source: TopicPartition, seen: BitMap64, chunks: Sequence[Records]
) -> Iterator[DecodedRecords]:
    """Yield what becomes of the records that were seen in an earlier pass."""
    for records in chunks:
        offsets = records.offsets.to_numpy()
        again = np.isin(offsets, offsets_of(bitmap_of(offsets) & seen))
        if again.any():
            yield from judge.decode(*source, records.filter(pa.array(again)))
