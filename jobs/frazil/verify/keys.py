"""Compare the keys of a partition: is the row of each one its newest record? For tables that follow keys.

A record that is no row must have been followed by another one of its key: by the row that the table has, or by a
delete. So of these records the newest one of each key is compared with the key's row (docs/decisions/0036).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.wanted import Numbers, Wanted, as_numbers
from frazil.proof.sources import SourceColumns
from frazil.proof.tally import TopicPartition, bitmap_of, offsets_of
from frazil.proof.verification import NAMED, Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.by_identity import ByIdentity
from frazil.verify.decode import Judge
from frazil.verify.identities import halves_of
from frazil.verify.row_comparison import RowComparison

NO_ROW = -1


@dataclass(frozen=True, slots=True)
class ComparedKeys:
    """What is wrong with the keys of one pass: the offsets of the newest records of keys that are lost, and others.

    `others` has the newest record's offset and the row's: by kind, as arrays. `elsewhere` counts the keys that have a
    row from another partition: offsets of two partitions do not say which record is newer.
    """

    source: TopicPartition
    lost: Numbers
    others: Sequence[tuple[FindingKind, Numbers, Numbers]]
    elsewhere: int

    @property
    def unnamed(self) -> int:
        return sum(max(len(newest) - NAMED, 0) for _, newest, _ in self.others)

    def differences(self) -> Iterator[Discrepancy]:
        """Yield the first few of each kind."""
        topic, partition = self.source
        for kind, newest, row in self.others:
            then = "is newer" if kind is FindingKind.STALE_ROW else "deletes it"
            for at, stored in zip(newest[:NAMED].tolist(), row[:NAMED].tolist(), strict=True):
                what = f"the row of the record's key is from offset {stored}, and the record {then}"
                yield Discrepancy(kind, f"{topic}-{partition}@{at}", what, (at,))


@dataclass(slots=True)
class KeyComparison:
    """The records of a partition that are no rows, and have a key. `rows` are the identities and offsets of the table.

    `newest` holds as many keys as fit; for the others, the records are read again.
    """

    source: TopicPartition
    tables: Sequence[RowComparison]
    rows: TableScan
    columns: SourceColumns
    judge: Judge
    newest: ByIdentity = field(default_factory=lambda: ByIdentity(np.maximum))
    seen: BitMap64 = field(default_factory=BitMap64)

    def add(self, decoded: DecodedRecords) -> int:
        """Add records that are no rows, and return how many of them have a key.

        A change event that keeps the row of its key does not say whether there is one.
        """
        first, second = (decoded.rows.column(half).to_numpy() for half in (FIRST, SECOND))
        keeping = [as_numbers(each.offset) for each in decoded.incomplete if each.needs_row]
        says = ~np.isin(decoded.row_offsets, np.concatenate([np.empty(0, np.int64), *keeping]))
        self._add(first[says], second[says], decoded.row_offsets[says], is_delete=0)
        if decoded.deletes is None:
            return len(first)
        deletes = decoded.deletes
        self._add(*map(as_numbers, (deletes.first, deletes.second, deletes.offset)), is_delete=1)
        return len(first) + len(deletes)

    def _add(self, first: Numbers, second: Numbers, offsets: Numbers, *, is_delete: int) -> None:
        self.seen |= bitmap_of(offsets)
        self.newest.add(first, second, 2 * offsets + is_delete)

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None:
        """Add the records of a later pass."""
        del start, end
        for records in chunks:
            offsets = records.offsets.to_numpy()
            again = np.isin(offsets, offsets_of(bitmap_of(offsets) & self.seen))
            if again.any():
                for decoded in self.judge.decode(*self.source, records.filter(pa.array(again))):
                    self.add(decoded)

    def compared(self) -> ComparedKeys:
        """Compare the keys that are held."""
        newest = self.newest.combined()
        offsets, is_delete = newest.number >> 1, (newest.number & 1).astype(np.bool_)
        row, is_elsewhere = self._rows_of(Wanted(newest.first, newest.second), len(offsets))
        has_row, is_older = row != NO_ROW, row < offsets
        stale = np.flatnonzero(has_row & is_older & ~is_delete)
        deleted = np.flatnonzero(has_row & is_older & is_delete)
        return ComparedKeys(
            self.source,
            np.sort(offsets[~has_row & ~is_delete & ~is_elsewhere]),
            [
                (kind, offsets[which], row[which])
                for kind, which in ((FindingKind.STALE_ROW, stale), (FindingKind.DELETED_KEY, deleted))
            ],
            int(is_elsewhere.sum()),
        )

    def goes_on(self) -> bool:
        """Return whether there are more keys, for which the records must be read again."""
        if self.newest.end is None:
            return False
        self.newest = ByIdentity(np.maximum, start=self.newest.end)
        return True

    def _rows_of(self, wanted: Wanted, count: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return the offset of each key's newest row, or `NO_ROW`, and whether it has one from another partition."""
        row, is_elsewhere = np.full(count, NO_ROW, np.int64), np.zeros(count, np.bool_)
        for batch in self.rows.batches() if count else ():
            first, second, whole = halves_of(batch.drop_null())
            likely = wanted.candidates(first)
            places = wanted.find(first[likely], second[likely])
            found = whole.take(pa.array(likely[places >= 0]))
            places = places[places >= 0]
            offsets = found.column(self.columns.offset).to_numpy()
            is_here = found.column(self.columns.partition).to_numpy() == self.source[1]
            np.maximum.at(row, places[is_here], offsets[is_here])
            is_elsewhere[places[~is_here]] = True
        return row, is_elsewhere
