"""Tasks add stored columns to rows of a query, at their places. (Whole queries: test_transforms_in_spark.py.)"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.adapters.spark.sql.rows import FILE, POSITION, FilesOf, TableFiles
from frazil.adapters.spark.sql.stored_columns import WithStoredColumns
from frazil.adapters.spark.sql.types import arrow_schema
from frazil.materialize.ingest import write
from frazil.materialize.ingest.distribute import write_target
from frazil.model.columns import Column, Scalar
from frazil.model.errors import DefectError
from tests.table.transformed_orders import COLUMNS, Orders, by_id, order

MADE = "lake.made"


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """Files of several row groups; the second one has deleted rows."""
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 4)
    orders = Orders(tmp_path)
    orders.add(*range(10))
    orders.deduplicate(8, 9, *range(10, 20), 5, *range(20, 23))
    orders.make(MADE, (*COLUMNS, Column("next", Scalar("int")), Column("name", Scalar("string"))))
    return orders


def with_stored_columns(orders: Orders, batches: Sequence[Sequence[tuple[int, int]]]) -> list[dict[str, object]]:
    """Write rows whose columns are stored ones but for `next`, which is 0, 1, …. Return what the table has then."""
    view = orders.view()
    files = sorted(orders.lake.stored_files(view), key=lambda file: file.rows)
    schema = arrow_schema([*reversed(COLUMNS)])  # a query has its own order
    stored = TableFiles(write_target(view), orders.lake.storage, [files[:1], files[1:]], schema)
    target = orders.view(MADE)
    work = WithStoredColumns(
        FilesOf(write_target(target), orders.lake.storage, "t", 1 << 20),
        stored,
        {"id": "id", "symbol": "symbol", "name": "symbol", "n": "n"},
    )
    numbers, rows = iter(range(100)), []
    for batch in batches:
        file, position = zip(*batch, strict=True) if batch else ((), ())
        made = [next(numbers) for _ in batch]
        kinds = {"next": pa.int32(), FILE: pa.int64(), POSITION: pa.int64()}
        columns = zip((made, file, position), kinds.values(), strict=True)
        rows.append(pa.record_batch([pa.array(values, kind) for values, kind in columns], names=[*kinds]))
    ((found,),) = (batch.column(0).to_pylist() for batch in work(rows))
    result = pickle.loads(found)
    if isinstance(result, Exception):
        raise result
    staged = orders.lake.stage(target, base=target.head or 0, branch="b", files=result, summary={})
    orders.lake.publish(orders.view(MADE), branch="b", tag="t", drop=["b"])
    assert orders.view(MADE).head == staged
    return by_id(orders.rows_of(MADE))


def expected(*ids: int) -> list[dict[str, object]]:
    rows = ({**order(number), "name": order(number)["symbol"], "next": place} for place, number in enumerate(ids))
    return by_id([*rows])


def test_columns_are_those_of_the_rows_at_the_places(orders: Orders) -> None:
    """The second file begins with two deleted rows, and has another one, of place 12."""
    places = [[(0, 0), (0, 1), (0, 2)], [], [(0, 7), (0, 9), (1, 2)], [(1, 3), (1, 11), (1, 13), (1, 15)]]

    assert with_stored_columns(orders, places) == expected(0, 1, 2, 7, 9, 10, 11, 19, 20, 22)


def test_whole_files_are_joined_as_they_are(orders: Orders) -> None:
    live = [n for n in range(16) if n not in (0, 1, 12)]

    found = with_stored_columns(orders, [[(0, n) for n in range(10)], [(1, n) for n in live]])

    assert found == expected(*range(23))


@pytest.mark.parametrize(
    ("places", "what"),
    [
        ([[(0, 3), (0, 2)]], "in another order"),
        ([[(0, 3)], [(0, 3)]], "in another order"),
        ([[(0, 8)], [(0, 2)]], "in another order"),
        ([[(1, 2)], [(0, 2)]], "its rows came after those of"),
        ([[(0, 10)]], "and the file has 10 live rows"),
    ],
)
def test_other_places_are_a_defect_and_nothing_is_written(
    orders: Orders, places: list[list[tuple[int, int]]], what: str
) -> None:
    with pytest.raises(DefectError, match=what):
        with_stored_columns(orders, places)
