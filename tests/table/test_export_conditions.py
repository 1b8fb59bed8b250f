"""Conditions of exports on columns that were widened after some files were written."""

from __future__ import annotations

import pytest

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.pinned_scan import PinnedScan
from frazil.model.changes import WidenType
from frazil.model.columns import Column, Decimal, Scalar, Struct
from frazil.model.settings import CatalogSettings
from tests.table.delta_trades import Trades

COLUMNS = (
    Column("id", Scalar("int")),
    Column("price", Decimal(12, 2)),
    Column("party", Struct((Column("limit", Decimal(5, 1)),))),
)


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
    scan = PinnedScan(trades.view, trades.view.head or 0, columns=["id"], where=where)

    found = [n for file in range(scan.files) for part in scan.rows_of(file) for n in part.column("id").to_pylist()]

    assert sorted(found) == expected
