"""Conditions of exports: values that a column or a file cannot hold, and columns of lists."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.pinned_scan import PinnedScan
from frazil.model.changes import AddColumn, WidenType
from frazil.model.columns import Column, Decimal, ListOf, Scalar, Struct
from frazil.model.settings import CatalogSettings
from tests.table.delta_trades import Trades

COLUMNS = (
    Column("id", Scalar("int")),
    Column("price", Decimal(12, 2)),
    Column("party", Struct((Column("limit", Decimal(5, 1)),))),
)
LEGS = Column("legs", ListOf(Struct((Column("leg", Scalar("string")), Column("n", Scalar("long"))))))


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Trades:
    """Rows with prices of 1 and 2 before `price` and `party.limit` were widened, and of 3 and 4 after it."""
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path_factory.mktemp("warehouse"))))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create(COLUMNS)
    made.append(1, 2)
    made.change(
        WidenType("price", Decimal(12, 2), Decimal(20, 2)),
        WidenType("party.limit", Decimal(5, 1), Decimal(9, 1)),
    )
    made.append(3, 4)
    return made


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("price < 99999999999999.99", [1, 2, 3, 4]),
        ("price > -99999999999999.99 AND price < 3.50", [1, 2, 3]),
        ("price <> 99999999999999999999999.00", [1, 2, 3, 4]),
        ("price IN (2.00, 12345678901234.00)", [2]),
        ("price >= 12345678901234.00", []),
        ("price >= 2.00", [2, 3, 4]),
        ("party.limit < 12345678.9", [2, 4]),
    ],
)
def test_a_file_from_before_takes_values_of_the_wider_type(trades: Trades, where: str, expected: list[int]) -> None:
    assert found(trades, where) == expected


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Trades:
    """Limits of 2 and 4, and null in the rows 1 and 3; the column was widened between the rows 2 and 3."""
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path_factory.mktemp("warehouse"))))
    limit = Column("party", Struct((Column("limit", Scalar("int")),)))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create((Column("id", Scalar("int")), limit, LEGS))
    made.append(1, 2)
    made.change(WidenType("party.limit", Scalar("int"), Scalar("long")))
    made.append(3, 4)
    return made


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("party.limit < 1099511627776", [2, 4]),
        ("party.limit >= -1099511627776", [2, 4]),
        ("party.limit <> 1099511627776", [2, 4]),
        ("party.limit > 1099511627776", []),
        ("party.limit <= 99999999999999999999", [2, 4]),
        ("NOT party.limit = 99999999999999999999", [2, 4]),
        ("party.limit = 99999999999999999999 OR party.limit = 2", [2]),
        ("party.limit IN (4, 99999999999999999999)", [4]),
        ("party.limit = 99999999999999999999", []),
    ],
)
def test_a_null_is_not_less_than_a_value_that_its_type_cannot_hold(
    limits: Trades, where: str, expected: list[int]
) -> None:
    assert found(limits, where) == expected


def test_a_value_beyond_a_type_is_not_the_greatest_of_the_type(tmp_path: Path) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create((Column("id", Scalar("int")),))
    made.append(1, 2**31 - 1)

    assert found(made, "id IN (1, 1099511627776)") == [1]
    assert found(made, "id NOT IN (1, 1099511627776)") == [2**31 - 1]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("NOT d < 5", [2, 3]),
        ("NOT d >= 5", [1, 2]),
        ("NOT (d < 5 OR id = 3)", [2]),
        ("NOT (NOT d < 5)", [1]),
        ("d >= 5", [3]),
        ("NOT d = 1", [2, 3]),
    ],
)
def test_a_number_that_is_none_meets_what_is_not_less_and_not_greater(
    tmp_path: Path, where: str, expected: list[int]
) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create((Column("id", Scalar("int")), Column("d", Scalar("double"))))
    table = lake.catalog.load_table(made.view.identifier)
    numbers = {"id": [1, 2, 3, 4], "d": [1.0, float("nan"), 7.0, None]}
    table.append(pa.table(numbers, schema=table.schema().as_arrow()))

    assert found(made, where) == expected


@pytest.mark.parametrize(("where", "expected"), [("legs IS NULL", [3]), ("legs IS NOT NULL AND id > 1", [2, 4])])
def test_a_list_can_be_compared_with_null(limits: Trades, where: str, expected: list[int]) -> None:
    assert found(limits, where) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("side <> 'b'", [3]),
        ("NOT (side = 'b')", [3]),
        ("side NOT LIKE 'b%'", [3]),
        ("NOT side IN ('b')", [3]),
        ("side IS NULL OR side <> 'b'", [1, 2, 3]),
        ("size IS NOT NAN", [3]),
        ("NOT size IS NAN", [3]),
    ],
)
def test_a_row_from_before_a_column_is_null_there(tmp_path: Path, where: str, expected: list[int]) -> None:
    """A null is neither equal to a value nor unequal."""
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create((Column("id", Scalar("int")),))
    made.append(1, 2)
    made.change(AddColumn("side", Scalar("string")), AddColumn("size", Scalar("double")))
    table = lake.catalog.load_table(made.view.identifier)
    table.append(
        pa.table({"id": [3, 4], "side": ["a", "b"], "size": [1.0, float("nan")]}, schema=table.schema().as_arrow())
    )

    assert found(made, where) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [("at IS NULL OR at > 15", [2, 3]), ("NOT (at IS NOT NULL AND at < 15)", [2, 3]), ("at > 5", [1, 2])],
)
def test_a_partition_of_nulls_can_be_read(tmp_path: Path, where: str, expected: list[int]) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    columns = Column("id", Scalar("int")), Column("at", Scalar("int"))
    made = Trades(lake, DeltaRsLogs(lake.storage)).create(columns, partition_by=("truncate(10, at)",))
    table = lake.catalog.load_table(made.view.identifier)
    table.append(pa.table({"id": [1, 2, 3], "at": [10, 20, None]}, schema=table.schema().as_arrow()))

    assert found(made, where) == expected


def found(trades: Trades, where: str) -> list[int]:
    """Return the ids of the rows that an export with this condition has."""
    scan = PinnedScan(trades.view, trades.view.head or 0, columns=["id"], where=where)
    parts = (part for file in range(scan.files) for part in scan.rows_of(file))
    return sorted(n for part in parts for n in part.column("id").to_pylist())
