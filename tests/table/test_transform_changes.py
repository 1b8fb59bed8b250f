"""Transformations of tables whose rows are replaced and deleted: the table is the query over the rows of now."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.model.errors import FrazilError, TransformHaltedError
from frazil.model.queries import Kept, Keyed
from frazil.model.settings import CatalogSettings
from frazil.model.transforms import TransformSpec
from frazil.transforms.preview import preview
from frazil.transforms.queries import Query
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.tables import TableRows
from frazil.transforms.verify import verify
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import combined, examples, sampled
from tests.table.transformed_orders import DuckQueries, Orders, compact, spec_of

CHANGES = {"source_changes": True, "source_identity": ("id",)}
ROWS = spec_of("SELECT id, upper(symbol) AS symbol, n + 1 AS next FROM orders WHERE n <> 3", **CHANGES)
GROUPS = spec_of("SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol", **CHANGES)


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=repr)


def expected(orders: Orders, spec: TransformSpec) -> list[dict[str, object]]:
    kinds = pa.schema([("id", pa.int64()), ("symbol", pa.string()), ("n", pa.int32())])
    with duckdb.connect() as database:
        database.register("orders", pa.Table.from_pylist(orders.rows, kinds))
        return in_order(database.sql(spec.sql).to_arrow_table().to_pylist())


def test_duplicates_that_a_batch_took_out_of_its_own_files_are_not_read(orders: Orders) -> None:
    made = orders.transformation(replace(ROWS, source_changes=False, source_identity=(), source_deduplicates=True))
    read = []
    for numbers in ((1, 2, 1), (2, 7, 7, 8), (9,), (8, 8)):
        orders.deduplicate(*numbers)
        done = made.batch()
        read.append(0 if done is None else done.read)
        assert in_order(orders.rows_of()) == expected(orders, ROWS)

    assert read == [2, 2, 1, 0]
    assert verify(made).clean


@pytest.mark.parametrize("spec", [ROWS, GROUPS], ids=["rows", "groups"])
def test_rows_that_are_replaced_and_deleted_change_the_table(orders: Orders, spec: TransformSpec) -> None:
    orders.change(1, 2, 3, 6, 11)
    made = orders.transformation(spec)
    made.batch()
    for numbers, without in (((2, 7), (1,)), ((8,), ()), ((), (11, 3))):
        orders.change(*numbers, without=without)
        made.batch()
        assert in_order(orders.rows_of()) == expected(orders, spec)

    assert made.batch() is None
    assert verify(made).clean
    Rebuild(made, RebuildLake(orders.lake, ["lake.made"])).perform()
    orders.change(2, without=(8,))
    made.batch()
    assert in_order(orders.rows_of()) == expected(orders, spec)


def test_rows_that_maintenance_writes_again_are_no_changes(orders: Orders) -> None:
    orders.change(1, 2, 4)
    made = orders.transformation(ROWS)
    made.batch()
    orders.change(6, without=(1,))
    compact(orders)
    orders.change(2)
    done = made.batch()

    assert done is not None and (done.read, done.written) == (2, 2)
    assert in_order(orders.rows_of()) == expected(orders, ROWS)


def test_changes_of_others_halt(orders: Orders) -> None:
    orders.change(1, 2)
    made = orders.transformation(ROWS)
    made.batch()
    orders.lake.catalog.load_table("lake.orders").delete("id = 2")

    with pytest.raises(TransformHaltedError, match="was changed by others since"):
        made.batch()


@pytest.mark.parametrize(("spec", "seed"), combined([ROWS, GROUPS], range(examples(2, 60))))
def test_the_table_is_the_query_over_the_rows_of_now_after_any_history(
    orders: Orders, spec: TransformSpec, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(chance.randrange(3, 7)):
        for _ in range(chance.randrange(3)):
            present = [row["id"] for row in orders.rows]
            without = chance.sample(present, min(len(present), chance.randrange(3)))
            orders.change(*chance.sample(range(20), chance.randrange(4)), without=without)
            if chance.random() < 0.3 and orders.rows:
                compact(orders)
        kept, act = orders.lake, chance.choice(ACTS)
        settings = CatalogSettings("jdbc", str(orders.folder))
        orders.lake = WatchedLake(settings, around=disturbed(act, chance.randrange(1, 7)))
        with suppress(DiedError, FrazilError):
            orders.transformation(spec).batch()
        orders.lake = kept

    orders.transformation(spec).batch()

    assert in_order(orders.rows_of()) == expected(orders, spec)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("number", sampled(range(1, 6), lambda n: n == 3))
def test_a_change_counts_once_whatever_happens_to_a_commit(orders: Orders, act: str, number: int) -> None:
    orders.change(1, 2, 6)
    orders.transformation(GROUPS).batch()
    orders.change(2, 7, without=(1,))
    kept = orders.lake
    orders.lake = WatchedLake(CatalogSettings("jdbc", str(orders.folder)), around=disturbed(act, number))
    with suppress(DiedError, FrazilError):
        orders.transformation(GROUPS).batch()
    orders.lake = kept
    orders.transformation(GROUPS).batch()

    assert in_order(orders.rows_of()) == expected(orders, GROUPS)


def test_a_transformation_follows_the_groups_of_another_one(orders: Orders) -> None:
    orders.add(1, 6, 2)
    first = orders.transformation(spec_of("SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol"))
    second = orders.transformation(
        spec_of("SELECT symbol, orders * 10 AS tenfold FROM made", name="more", source="lake.made")
    )
    for numbers in ((11,), (16, 22), (3,)):
        first.batch()
        second.batch()
        orders.add(*numbers)
    first.batch()
    second.batch()

    assert in_order(orders.rows_of("lake.more")) == in_order(
        [{"symbol": row["symbol"], "tenfold": row["orders"] * 10} for row in orders.rows_of("lake.made")]
    )


class AddingAndTakingOut(DuckQueries):
    """As Spark, it takes rows out of the groups of a table whose rows change, by columns that it keeps for that."""

    def check(self, spec: TransformSpec, tables: Sequence[TableRows]) -> Query:
        query = DuckQueries.check(self, spec, tables)
        kept = Kept(1, "orders", "Sum", "bigint", is_signed=True)
        return replace(query, keyed=Keyed(("symbol",), (kept,), is_signed=True)) if spec.source_changes else query


def test_groups_without_what_is_kept_to_take_rows_out_halt(orders: Orders) -> None:
    spec = replace(GROUPS, source_changes=False)
    orders.add(1, 6)
    orders.transformation(spec).batch()
    orders.change(6)
    made = orders.transformation(GROUPS, lambda: AddingAndTakingOut(orders.lake))

    with pytest.raises(TransformHaltedError, match="found symbol with orders__count, __rows"):
        made.batch()

    assert isinstance(preview(made).halted, TransformHaltedError)
