"""Files that are written again with near values of several columns next to each other."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_maintenance import JSON, Orders, asked

from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.ingest import write
from frazil.materialize.ingest.z_order import in_z_order
from frazil.model.spec import TableSpec

COUNT = 4_096
GROUPS = 16


def rows(**columns: Sequence[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(list(values)) for name, values in columns.items()})


def shuffled(count: int, seed: int) -> list[int]:
    values = list(range(count))
    random.Random(seed).shuffle(values)
    return values


def groups_with(table: pa.Table, column: str, value: object) -> int:
    """Return how many row groups a reader cannot skip that looks for a value."""
    size = table.num_rows // GROUPS
    parts = [table.column(column).slice(start, size).to_pylist() for start in range(0, table.num_rows, size)]
    return sum(min(part) <= value <= max(part) for part in parts)


@pytest.mark.parametrize("far", [1, 10**9])
def test_a_filter_on_any_column_skips_most_row_groups(far: int) -> None:
    """However far the values of one column are apart: their ranks count."""
    batch = rows(a=[far * value for value in shuffled(COUNT, 1)], b=shuffled(COUNT, 2))

    ordered = in_z_order([batch.slice(0, 1_000), batch.slice(1_000)], ["a", "b"])

    for name, factor in (("a", far), ("b", 1)):  # each group has a quarter of the values, and a few at the edges
        read = [groups_with(ordered, name, factor * value) for value in range(0, COUNT, 97)]
        assert max(read) <= GROUPS // 2
    assert sorted(ordered.to_pylist(), key=str) == sorted(batch.to_pylist(), key=str)


@pytest.mark.parametrize(
    "values",
    [
        [True, None, False, True],
        [1.5, float("-inf"), float("inf"), None],
        ["b", "", None, "é"],
        [b"b", b"", None, b"\x00"],
        [Decimal("1.5"), Decimal("-3.5"), None, Decimal("0.5")],
    ],
)
def test_values_of_each_type_have_a_place_and_nulls_are_last(values: list[object]) -> None:
    ordered = in_z_order([rows(n=[0, 1, 2, 3], c=values)], ["c", "c"]).column("c").to_pylist()

    assert ordered == [*sorted(value for value in values if value is not None), None]  # type: ignore[type-var]


def test_merged_files_have_near_values_of_all_columns_next_to_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "SORTED_ROW_GROUP_ROWS", 25)
    columns = ("value", "kafka_offset")
    orders = Orders(tmp_path, ordered(columns))
    texts = [f"{number:04}" for number in shuffled(400, 3)]
    for start in range(0, 400, 20):
        orders.world.values += [text.encode() for text in texts[start : start + 20]]
        orders.batch()

    orders.perform(asked())

    (file,) = orders.world.lake.stored_files(orders.view)
    merged = pq.ParquetFile(file.path)
    assert merged.num_row_groups == GROUPS
    assert merged.read(["value"]).column(0).to_pylist() != texts
    for name in columns:
        column = merged.read([name])
        middle = sorted(column.column(0).to_pylist())[200]
        assert groups_with(column, name, middle) <= GROUPS // 2
    assert file.rows == 400
    orders.check()


def ordered(names: tuple[str, ...]) -> TableSpec:
    return replace(JSON, maintain=replace(JSON.maintain, z_order=names))


def merged(orders: Orders, spec: TableSpec, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Merge small files, and return the events of the log."""
    caplog.clear()
    orders.perform(asked(), spec)
    orders.check()
    return [record.message for record in caplog.records]


def test_a_column_that_the_table_lacks_is_named_once_and_the_rows_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    orders = Orders(tmp_path)
    orders.batches(20)

    said = merged(orders, ordered(("value", "gone")), caplog)

    assert (said.count("z_order_without_column"), said.count("files_rewritten")) == (1, 1)


def test_dead_letters_have_no_z_order(tmp_path: Path) -> None:
    assert Housekeeping(ordered(("value", "kafka_offset")), "one").letter_rewriting.spec.maintain.z_order == ()
