"""The intervals of rows in a history, held against a model in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.modes.history import chained
from frazil.modes.upsert import DELETE, Changes, StoredRows, grouped
from frazil.modes.validity import OPEN


@dataclass(frozen=True)
class Record:
    key: int
    time: int
    offset: int = 0
    is_delete: bool = False


@dataclass(frozen=True)
class Row:
    record: Record
    begin: int
    end: int


def longs(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def model(records: Sequence[Record]) -> list[Row]:
    """Return the rows of a topic, one record after the other."""
    rows: list[Row] = []
    newest: dict[int, int] = {}
    for each in records:
        last = next((n for n in reversed(range(len(rows))) if rows[n].record.key == each.key), None)
        is_open = last is not None and rows[last].end == OPEN
        if each.is_delete and not is_open:
            continue
        time = newest[each.key] = max(each.time, newest.get(each.key, each.time))
        if last is not None and is_open:
            rows[last] = replace(rows[last], end=time)
        if not each.is_delete:
            rows.append(Row(each, time, OPEN))
    return rows


class Table:
    def __init__(self) -> None:
        self.rows: list[Row] = []

    def batch(self, records: Sequence[Record]) -> None:
        nothing = np.zeros(len(records), np.int64)
        changes = Changes(
            longs(each.key for each in records),
            nothing,
            (longs(each.time for each in records), nothing, longs(each.offset for each in records)),
            longs(DELETE if each.is_delete else 0 for each in records),
            longs(range(len(records))),
        )
        identities = grouped(changes)
        places = {key: n for n, key in enumerate(identities.first.tolist())}
        found = [(n, row) for n, row in enumerate(self.rows) if row.record.key in places]
        stored = StoredRows(
            longs(places[row.record.key] for _, row in found),
            (
                longs(row.begin for _, row in found),
                longs(row.end for _, row in found),
                longs(0 for _ in found),
                longs(row.record.offset for _, row in found),
            ),
            longs(0 for _ in found),
            longs(n for n, _ in found),
        )
        ours, theirs = chained(changes, identities, stored)
        for (n, row), begin, end in zip(found, theirs.begin.tolist(), theirs.end.tolist(), strict=True):
            self.rows[n] = replace(row, begin=begin, end=end)
        for each, begin, end in zip(records, ours.begin.tolist(), ours.end.tolist(), strict=True):
            if not each.is_delete:
                self.rows.append(Row(each, begin, end))


RECORDS = st.builds(Record, st.integers(0, 2), st.integers(0, 9), is_delete=st.booleans())


@given(st.lists(st.lists(RECORDS, max_size=8), max_size=5))
def test_rows_of_any_batches_have_the_intervals_of_the_topic(batches: list[list[Record]]) -> None:
    table, topic = Table(), list[Record]()
    for batch in batches:
        numbered = [replace(each, offset=len(topic) + n) for n, each in enumerate(batch)]
        topic += numbered
        table.batch(numbered)

        assert sorted(table.rows, key=lambda row: row.record.offset) == model(topic)


def test_the_next_record_ends_an_interval_and_a_delete_does() -> None:
    table = Table()
    table.batch([Record(1, 10, 0), Record(1, 20, 1)])
    table.batch([Record(1, 30, 2, is_delete=True), Record(1, 40, 3)])

    assert [(row.begin, row.end) for row in table.rows] == [(10, 20), (20, 30), (40, OPEN)]


def test_a_time_that_goes_backwards_is_the_greatest_so_far() -> None:
    table = Table()
    table.batch([Record(1, 10, 0)])
    table.batch([Record(1, 5, 1), Record(2, 5, 2), Record(1, 12, 3)])

    assert [(row.begin, row.end) for row in table.rows] == [(10, 10), (10, 12), (5, OPEN), (12, OPEN)]


def test_a_delete_of_no_row_leaves_no_trace() -> None:
    table = Table()
    table.batch([Record(1, 10, 0), Record(1, 20, 1, is_delete=True), Record(1, 90, 2, is_delete=True)])
    table.batch([Record(1, 30, 3)])

    assert [(row.begin, row.end) for row in table.rows] == [(10, 20), (30, OPEN)]
