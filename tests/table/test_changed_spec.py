"""A spec that changes under a table with rows: the proof holds before and after, and every reader sees all rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from frazil.adapters.iceberg.scan import metadata_location
from frazil.cli.app import run
from frazil.materialize.changed_spec.follow_spec import follow_layout, follow_spec
from frazil.model.changes import AddColumn
from frazil.model.columns import Scalar
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.spec import MetadataColumns
from frazil.verify.table import verify_table
from tests.fakes.duckdb_once import engine
from tests.table.small_lake import Read, SmallLake, spec_of


def follow(lake: SmallLake) -> None:
    follow_layout(lake.lake, lake.spec, follow_spec(lake.lake, lake.spec, lake.view).view)


def proven(lake: SmallLake) -> bool:
    verification = verify_table(lake.lake, lake.spec)
    assert verification.findings == ()
    return verification.clean


def counted(lake: SmallLake, condition: str) -> int:
    location = metadata_location(lake.view).removeprefix("file://")
    with engine() as connection:
        found = connection.execute(f"SELECT count(*) FROM iceberg_scan('{location}') WHERE {condition}").fetchone()
    assert found is not None
    return int(found[0])


def test_another_metadata_prefix_keeps_rows_and_proof(lake: SmallLake) -> None:
    lake.spec = spec_of("orders", metadata=MetadataColumns("meta_", lake.spec.metadata.keep))
    assert proven(lake), "before the change is applied"

    follow(lake)

    names = [column.name for column in lake.view.columns]
    assert names == ["symbol", *(f"meta_{name}" for name in lake.spec.metadata.keep)]
    assert proven(lake), "after it"
    lake.batch(Read("orders", 1, 50, 90))
    assert proven(lake), "after the next batch"
    assert lake.table.scan(row_filter="meta_offset < 20").to_arrow().num_rows == 19 + 20


def test_a_prefix_that_is_changed_back_gives_the_old_names(lake: SmallLake) -> None:
    before = lake.view.columns
    for prefix in ("meta_", "kafka_"):
        lake.spec = spec_of("orders", metadata=MetadataColumns(prefix, lake.spec.metadata.keep))
        follow(lake)

    assert lake.view.columns == before
    assert proven(lake)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((), ("day(kafka_timestamp)",)),
        (("day(kafka_timestamp)",), ("hour(kafka_timestamp)", "symbol")),
        (("bucket(4, symbol)",), ("bucket(8, symbol)",)),
        (("symbol",), ()),
    ],
)
def test_another_partitioning_keeps_old_files_and_every_row(
    tmp_path: Path, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", partition_by=first))
    lake.batch(Read("orders", 0, 0, 60))
    old = set(lake.files())
    lake.spec = spec_of("orders", partition_by=then)

    follow(lake)
    lake.batch(Read("orders", 0, 60, 100))

    assert lake.view.partition_fields == then
    assert old < set(lake.files())
    assert proven(lake)
    of_s3 = [n for n in range(100) if n % 7 == 3]
    assert lake.table.scan(row_filter="symbol = 'S3'").to_arrow().num_rows == len(of_s3)
    assert counted(lake, "symbol = 'S3'") == len(of_s3)
    since = "2026-02-02T12:00:00+00:00"
    assert lake.table.scan(row_filter=f"kafka_timestamp >= '{since}'").to_arrow().num_rows == 52
    assert counted(lake, f"kafka_timestamp >= '{since}'") == 52


def test_another_sort_order_gets_an_id_and_old_files_keep_theirs(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", sort_by=("symbol",)))
    orders = [(), ("symbol desc", "kafka_offset"), ("symbol",)]
    for number, sort_by in enumerate(orders):
        lake.batch(Read("orders", 0, 100 * number, 100 * (number + 1)))
        lake.spec = spec_of("orders", sort_by=sort_by)
        follow(lake)
        assert lake.view.sort_fields == sort_by
    lake.batch(Read("orders", 0, 300, 400))

    files = [task.file for task in lake.table.scan().plan_files()]
    files.sort(key=lambda file: pq.read_table(file.file_path)["kafka_offset"].to_pylist()[0] // 100)
    assert [file.sort_order_id for file in files] == [1, None, 2, 1]
    assert {number: len(order.fields) for number, order in lake.table.sort_orders().items()} == {0: 0, 1: 1, 2: 2}
    assert proven(lake)
    symbols = [pq.read_table(file.file_path)["symbol"].to_pylist() for file in files]
    assert symbols[0] == sorted(symbols[0])
    assert symbols[1] != sorted(symbols[1])
    assert symbols[2] == sorted(symbols[2], reverse=True)
    assert symbols[3] == sorted(symbols[3])
    of_s3 = [n for n in range(400) if n % 7 == 3]
    assert lake.table.scan(row_filter="symbol = 'S3'").to_arrow().num_rows == len(of_s3)
    assert counted(lake, "symbol = 'S3'") == len(of_s3)


def test_names_of_earlier_partition_fields_are_told_and_refused_as_columns(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", partition_by=("bucket(4, symbol)",)))
    lake.batch(Read("orders", 0, 0, 10))
    lake.spec = spec_of("orders", partition_by=())
    follow(lake)

    assert lake.view.partition_names == {"symbol_bucket"}
    with pytest.raises(IncompatibleSchemaError, match=r"symbol_bucket: long\): .* name that exists"):
        lake.lake.change_schema(lake.view, (AddColumn("symbol_bucket", Scalar("long")),), {})


def test_a_table_that_was_not_made_yet_is_no_failure_of_verify(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables" / "returns.yaml").write_text("topic: returns\n")

    assert run(["verify", "returns", "--config", config]) == 0

    assert capsys.readouterr().out == "lake.returns: the table does not exist: nothing to verify\n"


def test_a_table_that_was_dropped_is_a_failure_of_verify(
    config: str, lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.lake.catalog.drop_table("lake.orders")

    assert run(["verify", "orders", "--config", config]) == 1

    assert "no_table" in capsys.readouterr().out
