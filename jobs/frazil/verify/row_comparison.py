"""Compare the rows of one table with their records, column by column."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.wanted import as_numbers
from frazil.proof.tally import TopicPartition
from frazil.records import Records
from frazil.verify.columns import differing
from frazil.verify.decode import RowRedecoder
from frazil.verify.quoting import Quoting

Offsets = npt.NDArray[np.int64]


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

    @staticmethod
    def of(view: TableView, unnamed: Collection[str]) -> SometimesKept:
        """Return the columns of a table. The one of the topic is among `unnamed` where rows may name none."""
        applied = applied_spec_of(view.properties, table=view.identifier)
        if applied is None:
            return SometimesKept(frozenset(unnamed))
        kept = applied.keep if applied.keys["key"] != "none" else [name for name in applied.keep if name != "key"]
        sometimes = {applied.prefix + name for name in applied.sometimes_kept}.union(unnamed)
        return SometimesKept(frozenset(sometimes), frozenset(sometimes - {applied.prefix + name for name in kept}))

    def judge(self, column: str, stored: pa.Array, differs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        if column in self.no_longer:
            return np.zeros(len(differs), np.bool_)
        if column in self.sometimes:
            return np.asarray(differs & stored.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        return differs


def _taken_from_others(decoded: DecodedRecords, column: str) -> npt.NDArray[np.bool_]:
    """Return which rows have the value of a column from an earlier record: theirs does not say what it must be."""
    taken = [as_numbers(each.offset) for each in decoded.incomplete if column in each.columns]
    return np.isin(decoded.row_offsets, np.concatenate([np.empty(0, np.int64), *taken]))


@dataclass(slots=True)
class RowComparison:
    """Compares the rows of one partition in one table, which findings call `table`.

    `earlier` compare the records before an offset by the spec by which they were read, the newest first. A row that
    differs is right if it is equal by one of them, as `of_earlier` counts; else the oldest one says how it differs.
    One whose fields cannot be placed onto the table's columns says nothing, but `instead` does. `lost_then` are the
    fields without a column, by writer schema, of the rows that these explain.
    """

    source: TopicPartition
    rows: TableScan
    offset_column: str
    as_rows: RowRedecoder
    sometimes_kept: SometimesKept
    quoting: Quoting = field(default_factory=Quoting)
    table: str = "the table"
    earlier: Sequence[tuple[int, RowComparison]] = ()
    of_earlier: int = 0
    instead: RowComparison | None = None
    lost_then: dict[SchemaId | None, tuple[str, ...]] = field(default_factory=dict, init=False)

    @property
    def lost(self) -> Mapping[SchemaId | None, tuple[str, ...]]:
        """Return the fields without a column, by writer schema: what records hold there is not in the table."""
        instead = {} if self.instead is None else self.instead.lost
        return {**instead, **self.lost_then, **self.as_rows.placed.lost}

    def by(self, earlier: TableSpec, opened: Callable[[TableSpec], RowRedecoder]) -> RowComparison:
        """Return the comparison by an earlier spec, and `instead` by the same one with the present fields.

        A column that has got another type was empty until then.
        """
        fields, had = self.as_rows.spec.value_settings.fields, earlier.value_settings
        by_spec = replace(self, as_rows=opened(earlier))
        if had.fields != fields:
            mixed = replace(earlier, value_settings=replace(had, fields=fields))
            by_spec.instead = replace(self, as_rows=opened(mixed))
        return by_spec

    def differences(self, records: Records, rows: Side) -> Iterator[tuple[int, str]]:
        """Yield the offset of each difference between records and their rows, and what it is."""
        if not self.earlier:
            yield from self._by_present_spec(records, rows)
            return
        found = list(self._by_present_spec(records, rows))
        for until, comparison in self.earlier:
            wrong = {offset for offset, _ in found if offset < until}
            again = records.filter(pc.is_in(records.offsets, pa.array(wrong, pa.int64())))
            still = comparison._if_placed(again, rows)
            if still is None:
                continue
            found = [each for each in found if each[0] not in wrong] + still
            explained = wrong - {offset for offset, _ in still}
            self.of_earlier += len(explained)
            self.lost_then |= comparison.lost if explained else {}
        yield from sorted(found, key=lambda each: each[0])

    def _if_placed(self, records: Records, rows: Side) -> list[tuple[int, str]] | None:
        """Return the differences; None if the fields of records cannot be placed onto the columns of the table."""
        try:
            return list(self.differences(records, rows))
        except IncompatibleSchemaError:
            return None if self.instead is None else self.instead._if_placed(records, rows)

    def _by_present_spec(self, records: Records, rows: Side) -> Iterator[tuple[int, str]]:
        while len(records):
            found = list(self._differences(records, rows))
            moved = self._first_moved(records, rows, sorted({offset for offset, _ in found}))
            for offset, what in found:
                if moved is None or offset < records.offsets[moved].as_py():
                    yield offset, what
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
        stored, quoted = rows.at(decoded.row_offsets), self.quoting.value
        for name in self.as_rows.compared:
            here, there = stored.column(name), decoded.rows.column(name)
            differs = self.sometimes_kept.judge(name, here, differing(here, there)) & ~_taken_from_others(decoded, name)
            for index in np.flatnonzero(differs).tolist():
                what = f"column {name}: {quoted(here[index])} in {self.table}, {quoted(there[index])} in Kafka"
                yield int(decoded.row_offsets[index]), what
        for offset in () if decoded.deletes is None else decoded.deletes.offset:
            yield offset, f"a row in {self.table}, but the record deletes the row of its key"
        if (letters := decoded.dead_letters) is not None:
            for letter in letters.select(["offset", "reason", "detail"]).to_pylist():
                why = self.quoting.refusal(letter["reason"], letter["detail"])
                yield letter["offset"], f"a row in {self.table}, but the record cannot become a row: {why}"
