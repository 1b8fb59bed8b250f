"""Filters through delta-rs find every row, also in files whose columns have a bound that Delta cannot have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings
from tests.table.delta_trades import Trades

GREATEST = "\U0010ffff" * 17
"""Longer than a bound, and no text of a bound's length is greater."""
DAYS_AFTER_9999 = 2_932_897


@pytest.mark.parametrize(
    "days", [[0, 1], [0, DAYS_AFTER_9999], [DAYS_AFTER_9999]], ids=["before", "both", "after 9999"]
)
@pytest.mark.parametrize("greatest", ["a", GREATEST], ids=["a bound", "no upper bound"])
def test_a_dataset_of_delta_rs_finds_every_row(tmp_path: Path, greatest: str, days: list[int]) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    trades = Trades(lake, DeltaRsLogs(lake.storage)).create(
        (Column("s", Scalar("string")), Column("d", Scalar("date")))
    )
    files = DataFileWriter(write_target(trades.view), storage=lake.storage, prefix="w", target_bytes=1 << 20)
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    texts = pa.array([greatest] * len(days), files.arrow_schema.field("s").type)
    files.add(pa.RecordBatch.from_arrays([texts, dates], schema=files.arrow_schema))
    lake.stage(trades.view, base=trades.view.head or 0, branch="b", files=files.close(), summary={})
    lake.publish(trades.view, branch="b", tag="t", drop=["b"])
    trades.announce()

    dataset = DeltaTable(str(trades.folder)).to_pyarrow_dataset()

    assert dataset.count_rows(filter=ds.field("s") == greatest) == len(days)
    assert dataset.count_rows(filter=ds.field("d") >= dates[0]) == len(days)
