"""The intervals of a history that a column orders, held against a model in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.modes.memory import NO_DELETES, Deletes, Memory
from frazil.modes.ordered_history import in_order
from frazil.modes.upsert import DELETE, Changes, StoredRows, grouped
from frazil.modes.validity import OPEN


@dataclass(frozen=True, order=True)
class Record:
    key: int
    time: int
    partition: int = 0
    offset: int = 0
    is_delete: bool = False


Row = tuple[Record, int]
"""A record and the end of its interval."""


def longs(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def model(records: Iterable[Record]) -> list[Row]:
    """Return the rows of all records, whatever their order is."""
    rows = []
    for _, of_key in groupby(sorted(records), key=lambda each: each.key):
        in_order = [*of_key]
        ends = [*(each.time for each in in_order[1:]), OPEN]
        rows += [(each, end) for each, end in zip(in_order, ends, strict=True) if not each.is_delete]
    return rows


@dataclass
class Table:
    rows: list[Row] = field(default_factory=list)
    deletes: Deletes = NO_DELETES

    def batch(self, records: Sequence[Record]) -> None:
        changes = Changes(
            longs(each.key for each in records),
            np.zeros(len(records), np.int64),
            tuple(longs(getattr(each, name) for each in records) for name in ("time", "partition", "offset")),
            longs(DELETE if each.is_delete else 0 for each in records),
            longs(range(len(records))),
        )
        identities = grouped(changes)
        places = {key: n for n, key in enumerate(identities.first.tolist())}
        found = [(n, row) for n, row in enumerate(self.rows) if row[0].key in places]
        stored = StoredRows(
            longs(places[row[0].key] for _, row in found),
            (
                longs(row[0].time for _, row in found),
                longs(row[1] for _, row in found),
                longs(row[0].partition for _, row in found),
                longs(row[0].offset for _, row in found),
            ),
            longs(0 for _ in found),
            longs(n for n, _ in found),
        )
        ours, theirs = in_order(changes, identities, stored, self.deletes)
        for (n, row), begin, end in zip(found, theirs.begin.tolist(), theirs.end.tolist(), strict=True):
            assert begin == row[0].time
            self.rows[n] = row[0], end
        self.rows += [(each, end) for each, end in zip(records, ours.end.tolist(), strict=True) if not each.is_delete]
        deleting = changes.take(np.flatnonzero(changes.file == DELETE))
        self.deletes = Memory(self.deletes).with_all(deleting.first, deleting.second, deleting.order)

    def forget(self) -> None:
        self.deletes = NO_DELETES


RECORDS = st.builds(Record, st.integers(0, 2), st.integers(0, 6), st.integers(0, 1), is_delete=st.booleans())


@given(st.lists(st.lists(RECORDS, max_size=8), max_size=5))
def test_rows_have_the_intervals_of_the_sorted_records_in_whatever_order_they_come(
    batches: list[list[Record]],
) -> None:
    table, topic = Table(), list[Record]()
    for batch in batches:
        numbered = [replace(each, offset=len(topic) + n) for n, each in enumerate(batch)]
        topic += numbered
        table.batch(numbered)

        assert sorted(table.rows) == model(topic)


def intervals(table: Table) -> list[tuple[int, int]]:
    return sorted((record.time, end) for record, end in table.rows)


def test_a_late_record_splits_the_interval_that_it_falls_into() -> None:
    table = Table()
    table.batch([Record(1, 10), Record(1, 20, offset=1)])
    table.batch([Record(1, 13, offset=2), Record(1, 5, offset=3)])

    assert intervals(table) == [(5, 10), (10, 13), (13, 20), (20, OPEN)]


def test_a_late_delete_ends_the_interval_that_it_falls_into_and_rows_after_it_stay() -> None:
    table = Table()
    table.batch([Record(1, 10), Record(1, 20, offset=1)])
    table.batch([Record(1, 13, offset=2, is_delete=True)])

    assert intervals(table) == [(10, 13), (20, OPEN)]


def test_a_delete_before_any_row_ends_a_late_row() -> None:
    table = Table()
    table.batch([Record(1, 10, is_delete=True)])
    table.batch([Record(1, 7, offset=1)])

    assert intervals(table) == [(7, 10)]


def test_a_delete_that_is_forgotten_is_known_by_the_interval_that_it_ended() -> None:
    table = Table()
    table.batch([Record(1, 10), Record(1, 20, offset=1, is_delete=True)])
    table.forget()
    table.batch([Record(1, 15, offset=2), Record(1, 20, offset=3), Record(1, 25, offset=4, is_delete=True)])

    assert intervals(table) == [(10, 15), (15, 20), (20, 25)]


def test_a_forgotten_delete_at_the_time_of_its_row_ends_it_still() -> None:
    table = Table()
    table.batch([Record(1, 10, offset=3), Record(1, 10, offset=4, is_delete=True)])
    table.forget()
    table.batch([Record(1, 10, offset=5), Record(1, 9, offset=6)])

    assert sorted((record.offset, end) for record, end in table.rows) == [(3, 10), (5, OPEN), (6, 10)]
