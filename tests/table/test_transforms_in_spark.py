"""Transformations in Spark: what a query reads and writes, and what is refused before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from pathlib import Path
from uuid import UUID

import pytest

from frazil.adapters.spark.application import RUNS_QUERIES
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import SqlSession
from frazil.model.columns import Column, Decimal, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.errors import QueryFailedError, SpecError
from frazil.transforms.in_spark import SparkQueries
from frazil.transforms.query import lineage
from frazil.transforms.run import Transformation
from frazil.transforms.tables import TableRows
from tests.table.transformed_orders import SQL, Orders, by_id, spec_of, written

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark leaves the sockets of `collect` to the garbage collector."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSession]:
    runner = SparkRunner(log_file=tmp_path_factory.mktemp("spark") / "spark.log", jvm=RUNS_QUERIES)
    yield SqlSession(runner)
    runner.stop()


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def in_spark(orders: Orders, session: SqlSession, sql: str = SQL, **more: object) -> Transformation:
    return orders.transformation(spec_of(sql, **more), lambda: SparkQueries(session, orders.lake))


def test_batches_are_the_query_over_the_rows_that_were_added(orders: Orders, session: SqlSession) -> None:
    orders.add(1, 2, 3)
    made = in_spark(orders, session)
    made.batch()
    orders.add(7, 11)
    done = made.batch()

    assert done is not None and done.read == 2
    assert by_id(orders.rows_of()) == [
        {"id": 1, "symbol": "S1", "next": 2},
        {"id": 2, "symbol": "S2", "next": 3},
        {"id": 11, "symbol": None, "next": 6},
    ]
    assert [str(column.type) for column in orders.view("lake.made").columns] == ["long", "string", "int"]


EVERY_TYPE = (
    (Column("flag", Scalar("boolean")), True),
    (Column("ratio", Scalar("float")), 0.5),
    (Column("exact", Scalar("double")), -1e300),
    (Column("raw", Scalar("binary")), b"\x00\xff"),
    (Column("day", Scalar("date")), date(1969, 12, 31)),
    (Column("local", Scalar("timestamp")), datetime(2026, 1, 1, 1, 2, 3, 456)),
    (Column("moment", Scalar("timestamptz")), datetime(1, 1, 1, 1, 2, 3, 456, tzinfo=UTC)),
    (Column("price", Decimal(38, 10)), Number("-1.0000000001")),
    (Column("items", ListOf(Struct((Column("x", Scalar("int")),)))), [{"x": 1}, None]),
    (Column("labels", MapOf(Scalar("string"), Scalar("long"))), [("a", 1), ("b", None)]),
)


def test_each_type_of_a_table_comes_back_as_it_was(orders: Orders, session: SqlSession) -> None:
    columns = tuple(column for column, _ in EVERY_TYPE)
    orders.make("lake.types", columns)
    row = {column.name: value for column, value in EVERY_TYPE}
    orders.put([row, dict.fromkeys(row)], "lake.types")
    made = orders.transformation(
        spec_of("SELECT * FROM types", source="lake.types"), lambda: SparkQueries(session, orders.lake)
    )

    made.batch()

    assert orders.view("lake.made").columns == columns
    assert sorted(orders.rows_of(), key=repr) == sorted([row, dict.fromkeys(row)], key=repr)


def test_uuids_are_text_fixed_is_binary_and_times_of_day_are_left_out(orders: Orders, session: SqlSession) -> None:
    columns = (Column("id", Scalar("uuid")), Column("code", Fixed(2)), Column("clock", Scalar("time")))
    orders.make("lake.types", columns)
    value = UUID("12345678-9abc-def0-1234-56789abcdef0")
    orders.put([{"id": value.bytes, "code": b"ab", "clock": time(1)}], "lake.types")
    spec = spec_of("SELECT * FROM types", source="lake.types")
    orders.transformation(spec, lambda: SparkQueries(session, orders.lake)).batch()

    assert orders.rows_of() == [{"id": str(value), "code": b"ab"}]
    with pytest.raises(SpecError, match="clock") as refused:
        SparkQueries(session, orders.lake).check(
            spec_of("SELECT clock FROM types", source="lake.types"), [TableRows(orders.view("lake.types"), ())]
        )
    assert "Spark cannot read types.clock, a time of day" in refused.value.hint


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT nope FROM orders", r"made.yaml: sql \(line 1 of the SQL, character 8\): .*`nope` cannot be resolved"),
        ("SELECT id FROM others", "`others` cannot be found"),
        ("SELECT id FRM orders", "Syntax error at or near 'orders'"),
        ("SELECT id, id FROM orders", "two columns of the result have the name id"),
        ("SELECT NULL AS x FROM orders", "x has the type void"),
        ("SELECT symbol FROM orders a JOIN orders b ON a.id = b.id", "`symbol` is ambiguous"),
        ("SELECT a.id FROM orders a JOIN orders b ON a.id = b.id", "joins orders with itself"),
        ("SELECT DISTINCT id FROM orders", "drops duplicates"),
        ("SELECT id FROM orders LIMIT 1", "has a LIMIT"),
        ("SELECT id FROM orders ORDER BY id", "sorts its rows"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS r FROM orders", "has a window function"),
        ("SELECT id, rand() AS r FROM orders", "is not deterministic"),
        ("SELECT id, current_timestamp() AS r FROM orders", "depends on the time"),
        ("SELECT id FROM orders UNION ALL SELECT 1", "adds rows that do not come from orders"),
        ("SELECT id FROM orders WHERE id > (SELECT max(id) FROM orders)", "in a subquery"),
        ("SELECT 1 AS x", "does not read orders"),
    ],
)
def test_what_cannot_be_kept_batch_by_batch_is_refused(
    orders: Orders, session: SqlSession, sql: str, what: str
) -> None:
    with pytest.raises(SpecError, match=what):
        SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())])


@pytest.mark.parametrize(
    "sql",
    [
        "WITH big AS (SELECT * FROM orders WHERE n > 1) SELECT id FROM big",
        "SELECT id FROM orders UNION ALL SELECT id + 1 FROM orders",
        "SELECT id, word FROM orders LATERAL VIEW explode(split(symbol, '')) w AS word",
        "SELECT o.id FROM (SELECT * FROM orders) o WHERE n IN (1, 2)",
    ],
)
def test_what_looks_at_each_row_by_itself_is_kept(orders: Orders, session: SqlSession, sql: str) -> None:
    assert SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())]).columns


def test_lineage_and_needed_columns_come_from_the_plan(orders: Orders, session: SqlSession) -> None:
    sql = "WITH a AS (SELECT id, upper(symbol) AS s FROM orders WHERE n > 0) SELECT concat(s, id) AS x, 1 AS y FROM a"

    query = SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())])

    assert [(each.column, each.sources) for each in lineage(query.plan)] == [
        ("x", ("orders.id", "orders.symbol")),
        ("y", ()),
    ]
    assert query.needed == {"orders": {"id", "symbol", "n"}}
    less = SparkQueries(session, orders.lake).check(
        spec_of("SELECT id AS x FROM (SELECT * FROM orders)"), [TableRows(orders.view(), ())]
    )
    assert less.needed == {"orders": {"id"}}


def test_a_row_on_which_the_query_fails_stops_the_batch(orders: Orders, session: SqlSession) -> None:
    orders.add(1, 6)

    with pytest.raises(QueryFailedError, match="DIVIDE_BY_ZERO") as failed:
        in_spark(orders, session, "SELECT 1 / (n - 0) AS x FROM orders").batch()

    assert "nothing was published" in failed.value.what
    assert orders.rows_of() == []


def test_a_function_of_frames_is_a_transformation(orders: Orders, session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "cleaning_orders.py").write_text("def small(orders):\n    return orders.where('id < 2').select('id')\n")
    orders.add(1, 2)

    in_spark(orders, session, "", function="cleaning_orders:small", folder=str(tmp_path)).batch()

    assert orders.rows_of() == [{"id": 1}]


def test_deleted_rows_are_not_read(orders: Orders, session: SqlSession) -> None:
    from frazil.model.ingested import DeletedRows  # noqa: PLC0415

    view = orders.view()
    files = written(orders.lake, view, ())
    orders.add(1, 2, 4)
    view = orders.view()
    (file,) = orders.lake.stored_files(view)
    assert view.head is not None and files == ()
    orders.lake.stage(
        view, base=view.head, branch="b", files=(), summary={"frazil.epoch": "9", "frazil.batch-id": "x"},
        deletes=[DeletedRows(file.path, [1])],
    )  # fmt: skip
    orders.lake.publish(orders.view(), branch="b", tag="t", drop=["b"])

    in_spark(orders, session).batch()

    assert [row["id"] for row in by_id(orders.rows_of())] == [1, 4]
