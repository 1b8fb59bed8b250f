"""One window of a partition's offsets: what Kafka has against what the table has, record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.formats.arrow import project
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.proof.tally import TopicPartition, bitmap_of
from frazil.proof.verification import NAMED, Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.columns import differing
from frazil.verify.decode import Redecoder
from frazil.verify.letter_comparison import LetterComparison
from frazil.verify.letters import LETTER
from frazil.verify.quoting import Quoting

Offsets = npt.NDArray[np.int64]

SIDE_BYTES = 64 << 20
"""What the rows of a window, or its dead letters, may take in memory."""


@dataclass(slots=True)
class Compared:
    """The result of one partition's windows so far. `differences` has the first few of each kind."""

    rows: int = 0
    dead_letters: int = 0
    skipped: int = 0
    missing: BitMap64 = field(default_factory=BitMap64)
    not_in_kafka: BitMap64 = field(default_factory=BitMap64)
    differences: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0

    @property
    def records(self) -> int:
        return self.rows + self.dead_letters + self.skipped + len(self.missing)

    def differs(self, finding: Discrepancy) -> None:
        if len(self.differences) < NAMED:
            self.differences.append(finding)
        else:
            self.unnamed += 1


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of a table by offset, ascending."""

    offsets: Offsets
    columns: pa.RecordBatch

    def has(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        return np.isin(offsets, self.offsets)

    def at(self, offsets: Offsets) -> pa.RecordBatch:
        """Return the rows of these offsets, all of which must be present."""
        return self.columns.take(pa.array(np.searchsorted(self.offsets, offsets)))


@dataclass(frozen=True, slots=True)
class SometimesKept:
    """Metadata columns that were not kept all the time: null is right in `sometimes`, anything in `no_longer`."""

    sometimes: frozenset[str] = frozenset()
    no_longer: frozenset[str] = frozenset()

    def judge(self, column: str, stored: pa.Array, differs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        if column in self.no_longer:
            return np.zeros(len(differs), np.bool_)
        if column in self.sometimes:
            return np.asarray(differs & stored.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        return differs


class Letters(Protocol):
    """The dead letters of a partition, as they were before any encryption."""

    def between(self, column: str, start: int, end: int) -> Iterator[pa.RecordBatch]: ...


@dataclass(slots=True)
class PartitionComparison:
    """Compares one partition window by window."""

    source: TopicPartition
    rows: TableScan
    offset_column: str
    dead_letters: Letters
    as_rows: Redecoder
    as_leftovers: Redecoder
    letters: LetterComparison
    sometimes_kept: SometimesKept
    quoting: Quoting = field(default_factory=Quoting)
    found: Compared = field(default_factory=Compared)

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
        for records in chunks:
            self._chunk(records, *sides)

    def _sides(self, start: int, end: int, in_kafka: Offsets) -> tuple[Side, Side] | None:
        rows = self._side_of(self.rows, self.offset_column, start, end, in_kafka, self.as_rows.row_schema)
        if rows is None:
            return None
        dead = self._side_of(self.dead_letters, "offset", start, end, in_kafka, LETTER)
        return None if dead is None else (rows, dead)

    def _side_of(
        self, scan: TableScan | Letters, offset_column: str, start: int, end: int, in_kafka: Offsets, schema: pa.Schema
    ) -> Side | None:
        """Return the rows that Kafka has, or None if they are too large; of a single record, the first row."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self._known(scan.between(offset_column, start, end), offset_column, in_kafka):
            if len(in_kafka) > 1:
                held.append(batch)
                size += batch.nbytes
            elif not held:
                held.append(batch.slice(0, 1))
            if size > SIDE_BYTES:
                return None
        return _side(held, offset_column, schema)

    def _known(
        self, batches: Iterable[pa.RecordBatch], offset_column: str, in_kafka: Offsets
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that Kafka has; note the offsets of the others."""
        for batch in batches:
            offsets = batch.column(offset_column).to_numpy(zero_copy_only=False).astype(np.int64)
            there = np.isin(offsets, in_kafka)
            self.found.not_in_kafka |= bitmap_of(offsets[~there])
            if there.any():
                yield batch if there.all() else batch.filter(pa.array(there))

    def _chunk(self, records: Records, rows: Side, dead: Side) -> None:
        offsets = records.offsets.to_numpy()
        is_row, is_dead = rows.has(offsets), dead.has(offsets)
        if is_row.any():
            self._compare_rows(records.filter(pa.array(is_row)), rows)
        if is_dead.any():
            self._compare_dead_letters(records.filter(pa.array(is_dead)), dead)
        left = ~is_row & ~is_dead
        if left.any():
            self._sort_out(records.filter(pa.array(left)))

    def _compare_rows(self, records: Records, rows: Side) -> None:
        self.found.rows += len(records)
        while len(records):
            differences = list(self._differences(records, rows))
            moved = self._first_moved(records, rows, sorted({offset for offset, _ in differences}))
            for offset, what in differences:
                if moved is None or offset < records.offsets[moved].as_py():
                    self._differs(FindingKind.DIFFERENT_ROW, offset, what)
            if moved is None:
                return
            records = records.after(moved)

    def _first_moved(self, records: Records, rows: Side, differing: Sequence[int]) -> int | None:
        """Return the first record that differs only because the table got its columns later.

        From now on the fields of its writer are placed there.
        """
        placed = self.as_rows.placed
        for index in map(int, np.searchsorted(records.offsets.to_numpy(), differing)):
            record = records.after(index).first(1)
            schema_id = self.as_rows.schema_id_of(record)
            before = placed.chosen.get(schema_id, 0)
            for placement in placed.later(schema_id):
                placed.choose(schema_id, placement)
                if not any(self._differences(record, rows)):
                    return index
            placed.choose(schema_id, before)
        return None

    def _differences(self, records: Records, rows: Side) -> Iterator[tuple[int, str]]:
        for decoded in self.as_rows.decode(*self.source, records):
            yield from self._differences_of(decoded, rows)

    def _differences_of(self, decoded: DecodedRecords, rows: Side) -> Iterator[tuple[int, str]]:
        """The offset of each difference, and what it is."""
        stored, quoted = rows.at(decoded.row_offsets), self.quoting.value
        for name in self.as_rows.row_schema.names:
            here, there = stored.column(name), decoded.rows.column(name)
            for index in np.flatnonzero(self.sometimes_kept.judge(name, here, differing(here, there))).tolist():
                what = f"column {name}: {quoted(here[index])} in the table, {quoted(there[index])} in Kafka"
                yield int(decoded.row_offsets[index]), what
        if decoded.dead_letters is not None:
            for letter in decoded.dead_letters.select(["offset", "reason", "detail"]).to_pylist():
                why = self.quoting.refusal(letter["reason"], letter["detail"])
                what = f"a row in the table, but the record cannot become a row: {why}"
                yield letter["offset"], what

    def _compare_dead_letters(self, records: Records, dead: Side) -> None:
        self.found.dead_letters += len(records)
        for offset, what in self.letters.differences(records, dead.at(records.offsets.to_numpy())):
            self._differs(FindingKind.DIFFERENT_DEAD_LETTER, offset, what)

    def _sort_out(self, records: Records) -> None:
        """Records that are nowhere in the table: skipped by a setting, or missing."""
        missing: set[int] = set()
        for decoded in self.as_leftovers.decode(*self.source, records):
            missing |= set(decoded.row_offsets.tolist())
            if decoded.dead_letters is not None:
                missing |= set(decoded.dead_letters.column("offset").to_pylist())
        self.found.missing |= BitMap64(missing)
        self.found.skipped += len(records) - len(missing)

    def _differs(self, kind: FindingKind, offset: int, what: str) -> None:
        topic, partition = self.source
        self.found.differs(Discrepancy(kind, f"{topic}-{partition}@{offset}", what, (offset,)))


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
