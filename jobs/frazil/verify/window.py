"""One window of a partition's offsets: what Kafka has against what the table has, record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.formats.arrow import project
from frazil.model.spelling import plural
from frazil.proof.tally import TopicPartition, bitmap_of
from frazil.proof.verification import NAMED, Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.history_ends import ComparedEnds, DeleteComparison
from frazil.verify.judging import Judge
from frazil.verify.keys import ComparedKeys, KeyComparison
from frazil.verify.letter_comparison import LetterComparison
from frazil.verify.letters import LETTER
from frazil.verify.row_comparison import Offsets, RowComparison, Side

SIDE_BYTES = 64 << 20
"""What the rows of a window, or its dead letters, may take in memory."""


@dataclass(slots=True)
class OlderRows:
    """Rows that are older than the newest record of their key: the offsets of these records, and the first findings."""

    newer: BitMap64 = field(default_factory=BitMap64)
    first: list[Discrepancy] = field(default_factory=list)


@dataclass(slots=True)
class Compared:
    """The result of one partition's windows so far. `differences` has the first few of each kind."""

    rows: int = 0
    dead_letters: int = 0
    skipped: int = 0
    skipped_offsets: BitMap64 = field(default_factory=BitMap64)
    """Those of them in a table that does not follow keys."""
    followed: int = 0
    """Records, deletes among them, that are no rows because a table has one row for each key."""
    lost_keys: BitMap64 = field(default_factory=BitMap64)
    """The newest record of each key that should have a row."""
    keys_elsewhere: int = 0
    """Keys of records here that have a row from another partition."""
    missing: BitMap64 = field(default_factory=BitMap64)
    missing_good: BitMap64 = field(default_factory=BitMap64)
    """Those of them that no spec refuses by which they may have been read, and that have a value."""
    rows_not_in_kafka: BitMap64 = field(default_factory=BitMap64)
    letters_not_in_kafka: BitMap64 = field(default_factory=BitMap64)
    differing_keys: BitMap64 = field(default_factory=BitMap64)
    """Rows that a record in Kafka shows to be stale or deleted."""
    older_rows: Mapping[FindingKind, OlderRows] = field(
        default_factory=lambda: {kind: OlderRows() for kind in (FindingKind.STALE_ROW, FindingKind.DELETED_KEY)}
    )
    differences: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0
    deletes: int = 0
    """Records that delete a key."""
    newest_deletes: int = 0
    """Those that are the newest record of their key."""
    ending_late: BitMap64 = field(default_factory=BitMap64)
    """Rows of a history that end after the next record of their key in Kafka."""
    ending_early: BitMap64 = field(default_factory=BitMap64)
    """Rows that end before it."""
    ending_later: BitMap64 = field(default_factory=BitMap64)
    """Rows that end after the delete that is the next record of their key in Kafka, where offsets order the records."""

    @property
    def not_in_kafka(self) -> BitMap64:
        """Rows and dead letters of which Kafka does not have the record."""
        return self.rows_not_in_kafka | self.letters_not_in_kafka

    @property
    def unchecked_rows(self) -> BitMap64:
        """Rows of which neither their own record nor a newer one of their key was found in Kafka."""
        return self.rows_not_in_kafka - self.differing_keys

    @property
    def records(self) -> int:
        return self.rows + self.dead_letters + self.skipped + self.followed + len(self.missing)

    def differs(self, finding: Discrepancy) -> None:
        if len(self.differences) < NAMED:
            self.differences.append(finding)
        else:
            self.unnamed += 1

    def add_ends(self, ends: ComparedEnds) -> None:
        self.ending_early |= bitmap_of(ends.early)
        self.ending_later |= bitmap_of(ends.later)
        self.ending_late |= bitmap_of(ends.late)

    def add_keys(self, keys: ComparedKeys) -> None:
        self.lost_keys |= bitmap_of(keys.lost)
        self.keys_elsewhere += keys.elsewhere
        self.newest_deletes += keys.deletes
        for kind, rows in self.older_rows.items():
            rows.newer |= bitmap_of(keys.others[kind][0])
            rows.first += [*keys.differences(kind)][: NAMED - len(rows.first)]


class Letters(Protocol):
    """The dead letters of a partition, as they were before any encryption."""

    def between(self, column: str, start: int, end: int) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes that divide the records of a partition from the offset `since` on, by the names of their tables."""

    judge: Judge
    tables: tuple[str, ...]
    since: int

    def taken_by(self, records: Records) -> list[str | None]:
        """Return the table that takes each record, or None."""
        return [None if place < 0 else self.tables[place] for place in self.judge.routes_of(records).tolist()]


class Windows(Protocol):
    """Takes the records of a partition window by window, which compare with rows of `tables`."""

    @property
    def tables(self) -> Sequence[RowComparison]: ...

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None: ...


@dataclass(slots=True)
class PartitionComparison:
    """Compares one partition window by window, in a table or in all tables of a group, which have `routing`."""

    source: TopicPartition
    tables: Sequence[RowComparison]
    dead_letters: Letters
    leftovers: Judge
    letters: LetterComparison
    routing: Routing | None = None
    keys: KeyComparison | DeleteComparison | None = None
    """In a table that follows keys: what compares the records that are no rows."""
    found: Compared = field(default_factory=Compared)

    def earlier_notes(self, changed: Sequence[str]) -> Iterator[str]:
        """Yield how many rows and dead letters only an earlier spec explains, whose keys have `changed`."""
        rows, letters = sum(table.of_earlier for table in self.tables), self.letters.of_earlier
        found = [plural(rows, "row")] * (rows > 0) + [plural(letters, "dead letter")] * (letters > 0)
        if found:
            what = f"equal only by an earlier spec, by which they were read: {' and '.join(found)}"
            yield f"{self.source[0]}-{self.source[1]}: {what}; the spec has changed since: {', '.join(changed)}"

    def window(self, start: int, end: int, chunks: Sequence[Records]) -> None:
        """Compare the offsets `[start, end)`. `chunks` are all records that Kafka has of them.

        Only rows that Kafka has too are held: compaction may have left few of millions. Where they take more than
        `SIDE_BYTES`, because their nulls or another writer made them larger than the records, the window is halved.
        """
        in_kafka = np.concatenate([np.empty(0, np.int64), *(records.offsets.to_numpy() for records in chunks)])
        sides = self._sides(start, end, in_kafka)
        if sides is None:
            middle = int(in_kafka[len(in_kafka) // 2])
            before, behind = _cut(chunks, middle)
            self.window(start, middle, before)
            self.window(middle, end, behind)
            return
        rows, dead = sides
        for records in chunks:
            self._chunk(records, rows, dead)

    def _sides(self, start: int, end: int, in_kafka: Offsets) -> tuple[list[Side], Side] | None:
        rows: list[Side] = []
        for table in self.tables:
            of_table = (table.rows, table.offset_column, start, end, in_kafka, table.as_rows.row_schema)
            side = self._side_of(*of_table, gone=self.found.rows_not_in_kafka)
            if side is None:
                return None
            rows.append(side)
        gone = self.found.letters_not_in_kafka
        dead = self._side_of(self.dead_letters, "offset", start, end, in_kafka, LETTER, gone=gone)
        return None if dead is None else (rows, dead)

    def _side_of(
        self,
        scan: TableScan | Letters,
        offset_column: str,
        start: int,
        end: int,
        in_kafka: Offsets,
        schema: pa.Schema,
        *,
        gone: BitMap64,
    ) -> Side | None:
        """Return the rows that Kafka has, or None if they are too large; of a single record, the first row."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in only_in_kafka(scan.between(offset_column, start, end), offset_column, in_kafka, gone=gone):
            if len(in_kafka) > 1:
                held.append(batch)
                size += batch.nbytes
            elif not held:
                held.append(batch.slice(0, 1))
            if size > SIDE_BYTES:
                return None
        return _side(held, offset_column, schema)

    def _chunk(self, records: Records, rows: Sequence[Side], dead: Side) -> None:
        offsets = records.offsets.to_numpy()
        is_row, is_dead = np.zeros(len(records), np.bool_), dead.has(offsets)
        for table, side in zip(self.tables, rows, strict=True):
            here = side.has(offsets)
            is_row |= here
            if here.any():
                self._compare_rows(table, records.filter(pa.array(here)), side)
        self.found.rows += int(is_row.sum())
        if is_dead.any():
            self._compare_dead_letters(records.filter(pa.array(is_dead)), dead)
        left = ~is_row & ~is_dead
        if left.any():
            self._sort_out(records.filter(pa.array(left)))

    def _compare_rows(self, table: RowComparison, records: Records, rows: Side) -> None:
        in_place = self._in_place(table, records)
        for offset, what in table.differences(records.filter(pa.array(in_place)), rows):
            self._differs(FindingKind.DIFFERENT_ROW, offset, what)

    def _in_place(self, table: RowComparison, records: Records) -> list[bool]:
        """Return which records the table takes. Earlier ones are where the routes of their time have put them."""
        if self.routing is None:
            return [True] * len(records)
        in_place = []
        for offset, taker in zip(records.offsets.to_pylist(), self.routing.taken_by(records), strict=True):
            in_place.append(offset < self.routing.since or taker == table.table)
            if not in_place[-1]:
                what = f"a row in {table.table}, but {taker or 'no route'} takes the record"
                self._differs(FindingKind.WRONG_TABLE, offset, what)
        return in_place

    def _compare_dead_letters(self, records: Records, dead: Side) -> None:
        self.found.dead_letters += len(records)
        for offset, what in self.letters.differences(records, dead.at(records.offsets.to_numpy())):
            self._differs(FindingKind.DIFFERENT_DEAD_LETTER, offset, what)

    def _sort_out(self, records: Records) -> None:
        """Records that are nowhere in the table: followed by others of their key, skipped by a setting, or missing."""
        missing: set[int] = set()
        followed = 0
        for decoded in self.leftovers.decode(*self.source, records):
            if self.keys is None or self.keys.rows_are_missing:
                missing.update(*(table.offsets.tolist() for table in decoded.tables))
            if self.keys is not None:
                followed += self.keys.add(decoded)
            self.found.deletes += sum(len(table.deletes) for table in decoded.tables if table.deletes is not None)
            if (letters := decoded.dead_letters) is not None:
                missing |= set(letters.column("offset").to_pylist())
        lost = records.filter(pc.is_in(records.offsets, pa.array(missing, pa.int64())))
        self.found.missing |= bitmap_of(lost.offsets.to_numpy())
        self.found.missing_good |= bitmap_of(self.leftovers.accepted_by_all(*self.source, lost).to_numpy())
        if self.keys is None:
            left = bitmap_of(records.offsets.to_numpy())
            self.found.skipped_offsets |= left - bitmap_of(lost.offsets.to_numpy())
        self.found.followed += followed
        self.found.skipped += len(records) - len(missing) - followed

    def _differs(self, kind: FindingKind, offset: int, what: str) -> None:
        topic, partition = self.source
        self.found.differs(Discrepancy(kind, f"{topic}-{partition}@{offset}", what, (offset,)))


def only_in_kafka(
    batches: Iterable[pa.RecordBatch], offset_column: str, in_kafka: Offsets, *, gone: BitMap64
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that Kafka has, and add the offsets of the others to `gone`."""
    for batch in batches:
        offsets = batch.column(offset_column).to_numpy(zero_copy_only=False).astype(np.int64)
        there = np.isin(offsets, in_kafka)
        gone |= bitmap_of(offsets[~there])
        if there.any():
            yield batch if there.all() else batch.filter(pa.array(there))


def _cut(chunks: Sequence[Records], at: int) -> tuple[list[Records], list[Records]]:
    """The records before an offset, and those from it on."""
    places = [(records, int(np.searchsorted(records.offsets.to_numpy(), at))) for records in chunks]
    before = [records.first(place) for records, place in places if place]
    return before, [records.after(place) for records, place in places if place < len(records)]


def _side(batches: Sequence[pa.RecordBatch], offset_column: str, schema: pa.Schema) -> Side:
    """The batches together in the schema's columns and types, sorted by offset."""
    if not batches:
        return Side(np.empty(0, np.int64), _empty(schema))
    offsets = np.concatenate([batch.column(offset_column).to_numpy(zero_copy_only=False) for batch in batches])
    whole = pa.concat_batches([project(batch.select(schema.names), schema) for batch in batches])
    order = np.argsort(offsets, kind="stable")
    return Side(offsets[order].astype(np.int64), whole.take(pa.array(order)))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
