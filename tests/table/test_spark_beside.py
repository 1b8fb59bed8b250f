"""Iceberg's Java code beside Frazil on one table: it loads Frazil's commits, and Frazil continues from its commits."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from frazil.adapters.iceberg.lake import CATALOG_NAME, IcebergLake
from frazil.adapters.iceberg.restore import restore_columns
from frazil.adapters.iceberg.scan import metadata_location
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.changes import AddColumn, RenameColumn
from frazil.model.columns import Column, Scalar
from frazil.model.ingested import DeletedRows
from frazil.model.progress import PartitionProgress, SourceProgress, TableState
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.summary import store
from frazil.verify.table import verify_table
from tests.fakes.duckdb_once import engine
from tests.faults.procedures import Procedures, procedures
from tests.table.column_changes import sql_of_the_repair
from tests.table.small_lake import Read, SmallLake, altered, spec_of
from tests.table.trades_by_symbol import ROWS, new_trades

MINUTE, DAY = 60_000, 24 * 3_600_000
CLOCKS = {
    "right": 0,
    "10 minutes behind": -10 * MINUTE,
    "2 days behind": -2 * DAY,
    "10 minutes ahead": 10 * MINUTE,
    "2 days ahead": 2 * DAY,
    "2 days behind again": -2 * DAY,
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Procedures]:
    IcebergLake(CatalogSettings("jdbc", str(warehouse))).catalog.create_namespace_if_not_exists("lake")
    catalogs = {CATALOG_NAME: CatalogSettings("jdbc", str(warehouse))}
    with procedures(tmp_path_factory.mktemp("spark"), catalogs) as running:
        yield running


def rows_by_spark(spark: Procedures, identifier: str) -> object:
    return spark.sql(f"SELECT count(*) AS n FROM {CATALOG_NAME}.{identifier}")[0]["n"]


@dataclass
class Clock:
    offset_ms: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset_ms


def test_spark_loads_the_table_after_every_commit_whatever_the_clock_says(spark: Procedures, warehouse: Path) -> None:
    clock = Clock()
    lake = IcebergLake(CatalogSettings("jdbc", str(warehouse)), now_ms=clock)
    stored = store(TableState("p", 0, "w", "", ()))
    clock_is = ""

    def after(commit: str) -> None:
        assert rows_by_spark(spark, "lake.clocked") == 0, f"after {commit}, with a clock {clock_is}"

    def view() -> TableView:
        found = lake.load("lake.clocked")
        assert found is not None
        return found

    lake.create("lake.clocked", [Column("n", Scalar("long"))], partition_by=(), properties={}, summary={})
    for number, (clock_is, clock.offset_ms) in enumerate(CLOCKS.items()):  # noqa: B007 - `after` reads it
        lake.begin(view(), stored.summary, document=stored.document, tag=CHECKPOINT_TAG)
        after("begin")
        lake.stage(view(), base=view().head or 0, branch="b", files=(), summary={})
        after("stage")
        lake.publish(view(), branch="b", tag=CHECKPOINT_TAG, drop=["b"])
        after("publish")
        lake.move_tags(view(), put={"t": view().head or 0})
        after("move tags")
        lake.set_properties("lake.clocked", put={"a": str(number)})
        after("set properties")
        lake.change_schema(view(), [AddColumn(f"c{number}", Scalar("long"))], {})
        lake.change_schema(view(), [RenameColumn(f"c{number}", f"d{number}")], {})
        after("change schema")
        lake.stage(view(), base=view().head or 0, branch="b", files=(), summary={})
        lake.drop_branches(view(), ["b"])
        after("drop branches")

    stamps = [snapshot.committed_at for snapshot in view().ancestry(view().head)]
    assert stamps == sorted(set(stamps), reverse=True)


def wide_state(lake: SmallLake) -> SmallLake:
    """A state of 1,000 partitions that were read before the first batch."""
    figures = random.Random(7)
    begun = {n: PartitionProgress.beginning_at(figures.randrange(2**40)) for n in range(2, 1000)}
    lake.state = replace(lake.state, sources=(SourceProgress("orders", "id-orders", 0, begun),))
    return lake


def by_duckdb(lake: SmallLake) -> int:
    address = metadata_location(lake.view).removeprefix("file://")
    with engine() as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM iceberg_scan('{address}')").fetchall()[0]
        return int(count)


def days_pass(folder: Path) -> None:
    """Spark removes no orphan that is younger than a day."""
    for path in folder.rglob("*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 5 * 86_400))


def test_frazil_goes_on_from_what_spark_does_with_its_table(spark: Procedures, warehouse: Path) -> None:
    lake = wide_state(SmallLake(warehouse, spec_of()))
    call, table = f"CALL {CATALOG_NAME}.system", lake.spec.identifier
    checkpoint = f"SELECT snapshot_id FROM {CATALOG_NAME}.{table}.refs WHERE name = '{CHECKPOINT_TAG}'"

    def rolled_back() -> None:
        """To the last batch's parent; what Frazil has to know from then on is the state before that batch."""
        lake.state = lake.state_before
        parent = standing(lake.view, pipeline=lake.spec.pipeline).carrier.parent_id
        spark.roll_back(CATALOG_NAME, table, parent or 0)

    deeds = {
        "analyze": lambda: spark.sql(f"{call}.compute_table_stats(table => '{table}')"),
        "rewrite manifests": lambda: spark.sql(f"{call}.rewrite_manifests('{table}')"),
        "roll back": rolled_back,
        "compact": lambda: spark.compact(CATALOG_NAME, table),
        "expire": lambda: spark.expire(CATALOG_NAME, table),
        "remove orphans": lambda: (days_pass(warehouse), spark.sql(f"{call}.remove_orphan_files(table => '{table}')")),
    }
    lake.batch(Read("orders", 0, 0, 20), Read("orders", 1, 0, 20))
    for number, (name, deed) in enumerate(deeds.items(), start=1):
        lake.batch(Read("orders", 0, lake.state.sources[0].partitions[0].next, 20 * (number + 1)))
        deed()

        lake.restart()
        here = standing(lake.view, pipeline=lake.spec.pipeline)
        assert here.state == lake.state, name
        assert len(here.state.sources[0].partitions) == 1000, name
        count = here.state.total().rows
        assert rows_by_spark(spark, table) == count, name
        assert (by_duckdb(lake), lake.table.scan().to_arrow().num_rows) == (count, count), name
        if name == "analyze":
            assert [each.snapshot_id for each in lake.table.metadata.statistics] == [here.carrier.id]

    assert len(spark.sql(checkpoint)) == 1
    proof = verify_table(lake.lake, lake.spec)
    assert proof.clean, [str(each) for each in proof.findings]


def test_spark_and_frazil_know_the_same_sort_order(spark: Procedures, warehouse: Path) -> None:
    lake = SmallLake(warehouse, spec_of(table="ordered", sort_by=("symbol desc nulls first", "bucket(4, kafka_key)")))
    table = f"{CATALOG_NAME}.{lake.spec.identifier}"
    lake.batch(Read("orders", 0, 0, 40))

    (described,) = spark.sql(f"SHOW TBLPROPERTIES {table} ('sort-order')")
    assert described["value"] == "symbol DESC NULLS FIRST, bucket(4, kafka_key) ASC NULLS FIRST"
    spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY kafka_offset DESC NULLS LAST")
    lake.restart()
    assert lake.view.sort_fields == ("kafka_offset desc",)
    lake.batch(Read("orders", 0, 40, 60))

    found = spark.sql(f"SELECT sort_order_id, record_count AS n FROM {table}.files ORDER BY record_count")
    assert [(row["n"], row["sort_order_id"]) for row in found] == [(20, 2), (40, 1)]
    assert rows_by_spark(spark, lake.spec.identifier) == 60
    assert verify_table(lake.lake, lake.spec).findings == ()


def test_rows_that_were_marked_before_their_file_was_dropped_count_once(spark: Procedures, warehouse: Path) -> None:
    """Iceberg keeps the mark when it drops the file, and its summary counts the row a second time."""
    lake = SmallLake(warehouse, spec_of(table="marked"))
    table = f"{CATALOG_NAME}.{lake.spec.identifier}"
    lake.batch(Read("orders", 0, 0, 4))
    lake.batch(Read("orders", 1, 0, 4))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM {table} WHERE kafka_partition = 1 AND kafka_offset = 2")
    spark.sql(f"DELETE FROM {table} WHERE kafka_partition = 1")

    lake.restart()
    here = standing(lake.view, pipeline=lake.spec.pipeline)
    assert [snapshot.operation for snapshot in here.foreign] == ["delete", "delete"]
    assert here.foreign[-1].figure("removed-position-deletes") == 0, "the mark outlived its file"
    assert count_foreign(here).rows_removed == rows_by_spark(spark, lake.spec.identifier) == 4
    assert verify_table(lake.lake, lake.spec).findings == ()

    lake.state = replace(here.state, foreign=count_foreign(here))
    lake.batch(Read("orders", 0, 4, 8))
    spark.sql(f"DELETE FROM {table} WHERE kafka_offset = 5")
    assert count_foreign(standing(lake.view, pipeline=lake.spec.pipeline)).rows_removed == 5
    assert verify_table(lake.lake, lake.spec).findings == ()
    lake.rewrite_in_place(altered("kafka_offset", {6: 7}), path=lake.files()[-1])
    assert not verify_table(lake.lake, lake.spec).clean, "a real loss is found beside the marks"


def test_the_printed_repair_of_a_column_that_was_made_again_brings_all_values_back(
    spark: Procedures, warehouse: Path
) -> None:
    lake = SmallLake(warehouse, spec_of(table="repaired"))
    lake.batch(Read("orders", 0, 0, 4))
    table = f"{CATALOG_NAME}.{lake.spec.identifier}"
    spark.sql(f"ALTER TABLE {table} DROP COLUMN kafka_offset")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN kafka_offset bigint")
    lake.restart()
    lake.batch(Read("orders", 0, 4, 8))
    assert not verify_table(lake.lake, lake.spec).clean

    (restored,) = restore_columns(lake.table)
    for statement in sql_of_the_repair():
        spark.sql(statement.strip().replace("lake.orders", table).replace("kafka_offset_5", restored))

    lake.restart()
    proof = verify_table(lake.lake, lake.spec)
    assert proof.clean, [str(each) for each in proof.findings]
    assert rows_by_spark(spark, lake.spec.identifier) == 8


def test_rows_leave_earlier_files_and_the_batch_s_own(warehouse: Path, spark: Procedures) -> None:
    trades = new_trades(warehouse)
    (old,) = trades.files("a", range(ROWS))
    (other,) = trades.files("b", range(ROWS))
    trades.publish([old, other])
    (new,) = trades.files("c", range(3))

    trades.publish([new], [DeletedRows(old.path, range(1, ROWS)), DeletedRows(new.path, [0, 2])])

    expected = [("a", 0), *(("b", n) for n in range(ROWS)), ("c", 1)]
    assert trades.by_pyiceberg() == expected
    assert trades.by_duckdb() == expected
    by_spark = spark.sql(f"SELECT symbol, n FROM {CATALOG_NAME}.{trades.name} ORDER BY symbol, n")
    assert [(row["symbol"], row["n"]) for row in by_spark] == expected


def test_other_engines_read_a_table_with_files_of_its_own_and_keep_them(spark: Procedures, warehouse: Path) -> None:
    trades = new_trades(warehouse)
    call, files = f"CALL {CATALOG_NAME}.system", []
    for number in range(3):
        written = trades.lake.write_blob(trades.view, bytes([number]) * 100)
        head = trades.view.head or 0
        trades.lake.stage(trades.view, base=head, branch="b", files=trades.files("a", [number]), summary={})
        trades.lake.publish(trades.view, branch="b", tag="t", drop=["b"], statistics=written)
        files.append(written)

    def check(kept: set[str]) -> None:
        expected = [("a", number) for number in range(3)]
        by_spark = spark.sql(f"SELECT symbol, n FROM {CATALOG_NAME}.{trades.name} ORDER BY n")
        assert [(row["symbol"], row["n"]) for row in by_spark] == expected
        assert trades.by_pyiceberg() == trades.by_duckdb() == expected
        assert {each.path for each in files if Path(each.path.removeprefix("file://")).exists()} == kept

    check({each.path for each in files})
    days_pass(warehouse)
    spark.sql(f"{call}.remove_orphan_files(table => '{trades.name}')")
    check({each.path for each in files})
    spark.expire(CATALOG_NAME, trades.name)
    check({files[-1].path})
    assert trades.lake.read_blob(trades.view, files[-1].path) == bytes([2]) * 100
    spark.sql(f"{call}.compute_table_stats(table => '{trades.name}')")
    check({files[-1].path})
