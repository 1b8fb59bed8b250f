"""Filters by which DuckDB 1.5.5 and PyIceberg 0.12.0 find other rows, or none: a release that changes one fails here.

`docs/architecture.md`, "Partitions in filters" and "Values beyond a type in filters", tells readers of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, In, IsNull, LessThan, NotNull

from frazil.model import columns as of
from frazil.model.changes import WidenType
from frazil.model.columns import Column, ListOf, Scalar
from frazil.model.snapshot import TableView
from tests.fakes import duckdb_once
from tests.table.one_column import changed, count_in_duckdb, written

LEAST, MOST = Decimal(-1), Decimal(2**64 - 1)
BEYOND_INT = 2**40
LEAST_LONG = -(2**63)


@pytest.fixture
def new_engine() -> Iterator[None]:
    """Close the database of the engine afterwards: an internal error may leave it unusable."""
    yield
    duckdb_once._database.cache_clear()


def test_duckdb_leaves_out_files_of_truncated_decimals_beyond_a_long(tmp_path: Path) -> None:
    column = Column("n", of.Decimal(20, 0))
    view = written(tmp_path, column, [LEAST, Decimal(2**53), MOST], partition_by=["truncate(10, n)"])

    assert (count_in_duckdb(view, f"n = {MOST}"), count_in_pyiceberg(view, EqualTo(term="n", value=MOST))) == (0, 1)
    assert (count_in_duckdb(view, f"n < {MOST}"), count_in_pyiceberg(view, LessThan(term="n", value=MOST))) == (1, 2)
    assert (count_in_duckdb(view, f"n + 0 = {MOST}"), count_in_duckdb(view, f"n + 0 < {MOST}")) == (1, 2)


@pytest.mark.usefixtures("new_engine")
def test_duckdb_refuses_negative_values_of_short_truncated_decimals(tmp_path: Path) -> None:
    values = [Decimal("-1.23"), Decimal("0.49")]
    view = written(tmp_path, Column("n", of.Decimal(9, 2)), values, partition_by=["truncate(50, n)"])

    assert count_in_duckdb(view, "n + 0 = -1.23") == 1
    assert count_in_pyiceberg(view, EqualTo(term="n", value=Decimal("-1.23"))) == 1
    with pytest.raises(duckdb.InternalException, match="Information loss on integer cast"):
        count_in_duckdb(view, "n = -1.23")


def test_no_engine_finds_the_least_long_in_all_filters_if_it_is_truncated(tmp_path: Path) -> None:
    """Spark 4.1.1 finds as few rows as DuckDB."""
    values = [LEAST_LONG, -11, 0]
    view = written(tmp_path, Column("n", Scalar("long")), values, partition_by=["truncate(10, n)"])

    assert count_in_pyiceberg(view, EqualTo(term="n", value=LEAST_LONG)) == 0
    assert count_in_pyiceberg(view, LessThan(term="n", value=-11)) == 0
    assert count_in_duckdb(view, "n < -11") == 0
    assert count_in_duckdb(view, f"n >= {LEAST_LONG}") == 1
    assert count_in_duckdb(view, "n IS NOT NULL") == 3


def test_pyiceberg_finds_nulls_and_greatest_values_by_values_beyond_a_type(tmp_path: Path) -> None:
    view = written(tmp_path, Column("n", Scalar("int")), [None, 1, 2**31 - 1])

    beyond = LessThan(term="n", value=BEYOND_INT), In(term="n", literals=[BEYOND_INT, 1])
    assert [count_in_pyiceberg(view, each) for each in beyond] == [3, 2]
    assert count_in_duckdb(view, f"n < {BEYOND_INT}") == 2
    assert count_in_duckdb(view, f"n IN (1, {BEYOND_INT})") == 1
    widened = changed(tmp_path, WidenType("n", Scalar("int"), Scalar("long")))
    assert count_in_pyiceberg(widened, beyond[0]) == 3
    assert count_in_duckdb(widened, f"n < {BEYOND_INT}") == 2


def test_pyiceberg_cannot_compare_lists_with_null(tmp_path: Path) -> None:
    view = written(tmp_path, Column("n", ListOf(Scalar("long"))), [[1], None, []])

    for condition in (IsNull(term="n"), NotNull(term="n")):
        with pytest.raises(ValueError, match="Cannot explicitly project List or Map types"):
            count_in_pyiceberg(view, condition)
    assert count_in_duckdb(view, "n IS NULL") == 1


def count_in_pyiceberg(view: TableView, condition: BooleanExpression) -> int:
    return len(view.current.scan(row_filter=condition).to_arrow())
