"""What a batch leaves in a table with one row for each identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.modes.deletes import deleted_rows
from frazil.modes.upsert import DELETE, Changes, StoredRows, grouped, settle, taken_out

Identity = tuple[int, int]
Order = tuple[int, int]


@dataclass(frozen=True)
class Record:
    identity: Identity
    order: Order
    is_delete: bool = False


def longs(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def changes_of(records: Sequence[Record]) -> Changes:
    return Changes(
        first=longs(each.identity[0] for each in records),
        second=longs(each.identity[1] for each in records),
        order=(longs(each.order[0] for each in records), longs(each.order[1] for each in records)),
        file=longs(DELETE if each.is_delete else 0 for each in records),
        position=longs(range(len(records))),
    )


class Table:
    """Rows, each with its record, in which a batch finds those with its identities."""

    def __init__(self, rows: Iterable[Record] = ()) -> None:
        self.rows = list(rows)

    def batch(self, records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
        """Apply a batch. Return the records that were late, and the rows that were replaced."""
        changes = changes_of(records)
        identities = grouped(changes)
        places = {
            each: n for n, each in enumerate(zip(identities.first.tolist(), identities.second.tolist(), strict=True))
        }
        found = [(n, row) for n, row in enumerate(self.rows) if row.identity in places]
        stored = StoredRows(
            place=longs(places[row.identity] for _, row in found),
            order=(longs(row.order[0] for _, row in found), longs(row.order[1] for _, row in found)),
            file=longs(0 for _ in found),
            position=longs(n for n, _ in found),
        )
        settled = settle(changes, identities, stored)
        gone = set(stored.position[settled.replaced].tolist())
        replaced = [self.rows[n] for n in sorted(gone)]
        out = set(taken_out(changes, settled).tolist())
        written = [each for n, each in enumerate(records) if not each.is_delete and n not in out]
        assert written == [records[n] for n in settled.live.tolist()]
        self.rows = [row for n, row in enumerate(self.rows) if n not in gone] + written
        return [records[n] for n in settled.late.tolist()], replaced


FEW = st.integers(0, 2)
RECORDS = st.builds(Record, st.tuples(FEW, FEW), st.tuples(FEW, st.integers(0, 20)), st.booleans())


@given(st.lists(st.lists(RECORDS, max_size=8), max_size=6))
def test_a_table_has_the_newest_record_of_each_identity(batches: list[list[Record]]) -> None:
    """Deletes are not remembered here: an identity without a row takes any record."""
    table, model = Table(), dict[Identity, Record]()
    orders: dict[Identity, set[Order]] = {}
    for given_batch in batches:
        batch = [each for each in given_batch if each.order not in orders.setdefault(each.identity, set())]
        batch = list({(each.identity, each.order): each for each in batch}.values())
        for each in batch:
            orders[each.identity].add(each.order)
        before = dict(model)
        late, replaced = table.batch(batch)

        expected_late = [each for each in batch if each.identity in before and each.order < before[each.identity].order]
        on_time = [each for each in batch if each not in expected_late]
        for each in sorted(on_time, key=lambda record: record.order):
            model.pop(each.identity, None)
            if not each.is_delete:
                model[each.identity] = each
        touched = {each.identity for each in on_time}
        assert late == expected_late
        assert sorted(map(repr, replaced)) == sorted(repr(row) for at, row in before.items() if at in touched)
        assert sorted(map(repr, table.rows)) == sorted(map(repr, model.values()))


def test_the_same_record_again_is_late() -> None:
    record = Record((1, 1), (0, 5))
    table = Table([record])

    assert table.batch([record]) == ([record], [])
    assert table.rows == [record]


def test_a_delete_takes_out_the_row_and_leaves_none() -> None:
    row, other = Record((1, 1), (0, 5)), Record((1, 2), (0, 6))
    table = Table([row, other])

    assert table.batch([Record((1, 1), (0, 7), is_delete=True)]) == ([], [row])
    assert table.rows == [other]


def test_a_late_delete_takes_out_nothing() -> None:
    row, late = Record((1, 1), (0, 5)), Record((1, 1), (0, 4), is_delete=True)

    table = Table([row])

    assert table.batch([late]) == ([late], [])
    assert table.rows == [row]


def test_records_between_the_stored_row_and_the_newest_one_are_not_late() -> None:
    older, between, newest = (Record((1, 1), (0, n)) for n in (3, 6, 9))
    row = Record((1, 1), (0, 5))
    table = Table([row])

    assert table.batch([newest, older, between]) == ([older], [row])
    assert table.rows == [newest]


def test_an_identity_that_has_two_rows_has_one_after_its_next_record() -> None:
    twice = [Record((1, 1), (0, 3)), Record((1, 1), (0, 4))]
    table = Table(twice)

    assert table.batch([Record((1, 1), (0, 8))]) == ([], twice)
    assert table.rows == [Record((1, 1), (0, 8))]


def test_the_first_column_of_the_order_decides_before_the_second() -> None:
    low, high = Record((1, 1), (1, 9)), Record((1, 1), (2, 0))
    table = Table()
    table.batch([high, low])

    assert table.rows == [high]
    assert table.batch([Record((1, 1), (1, 100))])[0] == [Record((1, 1), (1, 100))]


def test_deleted_rows_are_listed_by_file_in_order() -> None:
    found = list(deleted_rows(["a", "b", "c"], longs([2, 0, 2, 0]), longs([7, 3, 1, 2])))

    assert [(each.path, list(each.positions)) for each in found] == [("a", [2, 3]), ("c", [1, 7])]
    assert list(deleted_rows(["a"], longs([]), longs([]))) == []
