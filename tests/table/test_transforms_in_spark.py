"""Transformations in Spark: what a query reads and writes, and what is refused before it runs."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.adapters.spark.sql.comparable import except_all
from frazil.adapters.spark.sql.rows import FilesOf
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.stored_columns import WithStoredColumns
from frazil.adapters.spark.sql.types import spark_schema
from frazil.maintain import rewriting
from frazil.materialize.ingest import write
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.changes import WidenType
from frazil.model.columns import Column, Decimal, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.errors import Misuse, QueryFailedError, SpecError, TransformHaltedError
from frazil.model.outputs import OutputSpec
from frazil.model.settings import Settings
from frazil.model.summary import is_rewrite
from frazil.model.transforms import Position, TransformSpec, transform_state
from frazil.specs.keys import NoSecrets
from frazil.specs.load import load_settings
from frazil.transforms.checks import problems
from frazil.transforms.in_spark import SparkQueries
from frazil.transforms.preview import lines as preview_lines
from frazil.transforms.preview import preview
from frazil.transforms.query import lineage
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.run import Transformation
from frazil.transforms.tables import TableRows
from frazil.transforms.tested import compared
from frazil.transforms.tested import lines as compared_lines
from frazil.transforms.upkeep import Upkeep
from frazil.transforms.verify import Verified, verify
from frazil.transforms.widened import other_values
from tests.fakes.in_process import InProcessRunner
from tests.fakes.output_topics_in_memory import OutputTopicsInMemory
from tests.query_session import WITHOUT_COMPILER, query_session
from tests.sampling import LONG, examples, sampled
from tests.table.process_clients import source_of
from tests.table.test_transform_outputs import TOPIC, Sent
from tests.table.transformed_orders import ORDERS, SQL, Orders, by_id, compact, spec_of, written

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark leaves the sockets of `collect` to the garbage collector."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSession]:
    """A session whose queries are compiled in a long run. Those of services/test_pages_with_queries.py always are."""
    with query_session(tmp_path_factory.mktemp("spark"), {} if LONG else WITHOUT_COMPILER) as opened:
        yield opened


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def in_spark(orders: Orders, session: SqlSession, sql: str = SQL, **more: object) -> Transformation:
    return in_spark_as(orders, session, spec_of(sql, **more))


def in_spark_as(orders: Orders, session: SqlSession, spec: TransformSpec) -> Transformation:
    return orders.transformation(spec, lambda: SparkQueries(session, orders.lake))


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


DIVIDED = (
    "SELECT id, symbol AS a, symbol AS b, n + 1 AS symbol FROM orders WHERE id % 3 = 0 OR symbol IS NULL",
    "SELECT more, id FROM (SELECT *, n * 2 AS more FROM orders) AS inside WHERE more > 4",
    "SELECT n, symbol, id, id + n AS more FROM orders WHERE id > 5",
    "SELECT id, upper(symbol) AS big FROM orders WHERE n < 0",
)


def test_rows_are_those_of_a_query_that_sees_all_columns(
    orders: Orders, session: SqlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows of a file are deleted, and a file has several row groups."""
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 5)
    orders.add(*range(17))
    orders.deduplicate(*range(12, 40))
    run, ways = SqlSession.run, list[type]()

    def spied(self: SqlSession, frame: object, files: object, *, name: str) -> list[object]:
        ways.append(type(files))
        return run(self, frame, files, name=name)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlSession, "run", spied)
    found: list[list[dict[str, object]]] = []
    for way in ("divided", "whole"):
        for number, sql in enumerate(DIVIDED):
            in_spark(orders, session, sql, name=f"{way}{number}").batch()
            found.append(by_id(orders.rows_of(f"lake.{way}{number}")))
        monkeypatch.setattr("frazil.transforms.in_spark.division", lambda plan, followed: None)

    assert ways == [WithStoredColumns] * 4 + [FilesOf] * 4
    assert found[:4] == found[4:]
    assert [len(rows) for rows in found[:4]] == [16, 16, 34, 0]


def test_each_type_of_a_table_comes_back_as_it_was(orders: Orders, session: SqlSession) -> None:
    columns = tuple(column for column, _ in EVERY_TYPE)
    orders.make("lake.types", columns)
    row = {column.name: value for column, value in EVERY_TYPE}
    orders.put([row, dict.fromkeys(row)], "lake.types")
    made = orders.transformation(
        spec_of("SELECT * FROM types", source="lake.types"), lambda: SparkQueries(session, orders.lake)
    )

    made.batch()

    assert verify(made).clean
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


REFUSED = [
    ("SELECT nope FROM orders", r"made.yaml: sql \(line 1 of the SQL, character 8\): .*`nope` cannot be resolved"),
    ("SELECT id FROM others", "`others` cannot be found"),
    ("SELECT id FRM orders", r"sql \(line 1 of the SQL, character 15\): Syntax error at or near 'orders'"),
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
    ("SELECT symbol COLLATE UTF8_LCASE AS s, count(*) AS c FROM orders GROUP BY 1", "gives s a collation"),
    ("SELECT map(symbol, n) AS m, count(DISTINCT id) AS c FROM orders GROUP BY 1", "has a map in what names its rows"),
]
SPARKS_OWN = ("nope", "others", "FRM", "ambiguous", "a.id", "subquery", "collation", "a map")
"""Words in those whose message or plan is Spark's own; `tests/unit/transforms` has all kinds of plans."""


@pytest.mark.parametrize(
    ("sql", "what"), sampled(REFUSED, lambda case: any(word in " ".join(case) for word in SPARKS_OWN))
)
def test_what_cannot_be_kept_batch_by_batch_is_refused(
    orders: Orders, session: SqlSession, sql: str, what: str
) -> None:
    with pytest.raises(SpecError, match=what):
        SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())])


FAILING = [
    (
        "SELECT id, 1 / 0 AS x FROM orders",
        r"line 1 of the SQL, character 12\): the query fails whatever .* are: Division",
    ),
    (
        "SELECT id FROM orders\nWHERE n > CAST('x' AS int)",
        r"line 2 of the SQL, character 11\): .*'x' .* cannot be cast",
    ),
    ("SELECT id, 2147483647 + 1 AS x FROM orders", r"integer overflow\. Use 'try_add' to .* return NULL instead\.\n"),
    (
        "SELECT id, min(to_date('x', 'yyyy')) AS x FROM orders GROUP BY id",
        "'x' could not be parsed",
    ),
]


def test_a_constant_that_fails_is_refused(orders: Orders, session: SqlSession) -> None:
    """A branch that no row may take can have one."""
    queries, tables = SparkQueries(session, orders.lake), [TableRows(orders.view(), ())]
    for sql, what in FAILING:
        with pytest.raises(SpecError, match=what):
            queries.check(spec_of(sql), tables)
    assert queries.check(spec_of("SELECT id, CASE WHEN n > 9 THEN 1 / 0 END AS x FROM orders"), tables).columns


AT_ANOTHER_TIME = [
    ("SELECT id, TIMESTAMP 'now' AS t FROM orders", "depends on the time or the user \\(TIMESTAMP 'now'\\)"),
    (
        "SELECT id FROM orders WHERE DATE'Today' > DATE '2026-01-01'",
        "depends on the time or the user \\(DATE'Today'\\)",
    ),
    ("SELECT id, CAST(concat('n', 'ow') AS timestamp) AS t FROM orders", "depends on the time or the user"),
    ("SELECT id, to_timestamp('now') AS t, to_date('today') AS d FROM orders", "depends on the time.*; it depends on"),
    ("SELECT id FROM orders WHERE CAST(id AS timestamp) < ' tomorrow UTC'", "depends on the time or the user"),
    ("SELECT id, t FROM orders, (VALUES (1, TIMESTAMP_NTZ 'yesterday')) AS v(n, t)", "depends on the time or the user"),
    ("SELECT base64(aes_encrypt(symbol, '0000111122223333')) AS s FROM orders", "aes_encrypt with a random init"),
    (
        "SELECT aes_encrypt(symbol, '0000111122223333', 'CBC', 'PKCS', X'') AS s FROM orders",
        "aes_encrypt with a random",
    ),
]
OF_OTHERS = [
    ("SELECT id FROM orders JOIN (SELECT * FROM users TABLESAMPLE (50 PERCENT)) USING (id)", "takes a sample"),
    ("SELECT id FROM orders JOIN (SELECT id FROM users LIMIT 3) USING (id)", "has a LIMIT or OFFSET without ORDER BY"),
    ("SELECT id, (SELECT id FROM users LIMIT 1) AS u FROM orders", "has a LIMIT or OFFSET without ORDER BY"),
    ("SELECT id FROM orders JOIN csv.`{csv}` ON symbol = _c0", "reads csv.`{csv}` itself, and no batch records"),
    ("SELECT id FROM orders WHERE symbol IN (SELECT value FROM text.`{csv}`)", "reads text.`{csv}` itself"),
]
OF_BOTH = ("lake.orders", "lake.users")
KEPT_BESIDE_OTHERS = [
    "SELECT id FROM orders WHERE id IN (SELECT id FROM users) OR n NOT IN (SELECT id + 1 FROM users)",
    "SELECT id FROM orders JOIN (SELECT id FROM (SELECT * FROM users ORDER BY id) LIMIT 3 OFFSET 1) USING (id)",
    "SELECT id, (SELECT max(id) FROM users LIMIT 1) AS u FROM orders CROSS JOIN (SELECT 1 AS x)",
    "SELECT orders.id FROM orders JOIN range(3) r ON r.id = n JOIN (VALUES ('a', 1)) v(x, y) ON y = n",
]


def test_what_gives_other_rows_at_another_time_is_refused(orders: Orders, session: SqlSession, tmp_path: Path) -> None:
    (csv := tmp_path / "x.csv").write_text("s1,a\n")
    orders.make("lake.users", (Column("id", Scalar("long")),))
    queries, tables = SparkQueries(session, orders.lake), [TableRows(orders.view(each), ()) for each in OF_BOTH]
    for sql, what in (*AT_ANOTHER_TIME, *((text.format(csv=csv) for text in case) for case in OF_OTHERS)):
        with pytest.raises(SpecError, match=what):
            queries.check(spec_of(sql, joins=OF_BOTH[1:]), tables)
    for sql in KEPT_BESIDE_OTHERS:
        assert queries.check(spec_of(sql, joins=OF_BOTH[1:]), tables).columns


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, TIMESTAMP 'epoch' AS t, DATE '2026-01-01' AS d, 'now' AS s, w FROM orders, (VALUES ('now')) v(w)",
        "SELECT to_timestamp(symbol) AS t FROM orders WHERE to_date('2026-01-01') < to_date(left('2027-01-01', 10))",
        "WITH big AS (SELECT * FROM orders WHERE n > 1) SELECT id FROM big",
        "SELECT id FROM orders UNION ALL SELECT id + 1 FROM orders",
        "SELECT id, word FROM orders LATERAL VIEW explode(split(symbol, '')) w AS word",
        "SELECT o.id FROM (SELECT * FROM orders) o WHERE n IN (1, 2)",
        "SELECT aes_encrypt(symbol, '0000111122223333', 'ECB') AS s FROM orders",
        "SELECT aes_encrypt(symbol, '0000111122223333', 'CBC', 'PKCS', unhex(repeat('0', 32))) AS s FROM orders",
        "SELECT map(symbol, n) AS m, count(*) AS c FROM orders GROUP BY 1",
        "SELECT count(DISTINCT symbol COLLATE UTF8_LCASE) AS c, symbol COLLATE UTF8_BINARY AS s FROM orders GROUP BY 2",
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


def test_wide_rows_are_handed_over_in_smaller_batches(session: SqlSession) -> None:
    wide = session.spark.range(0, 40, 1, 1).selectExpr("repeat('x', 2000000) AS text")
    schema = spark_schema([Column("bytes", Scalar("long"))])

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (pa.record_batch([pa.array([each.nbytes])], names=["bytes"]) for each in batches)

    found = [row.bytes for row in session.map_in_arrow(wide, sizes, schema).collect()]

    assert len(found) == 3 and max(found) < 40 << 20


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


AGGREGATES = """
SELECT upper(symbol) AS kind, n, count(*) AS orders, count(symbol) AS named, avg(n) AS mean,
       sum(CAST(id AS decimal(12, 2)) * n) AS total, avg(CAST(id AS decimal(12, 2))) AS mean_id,
       min(id) AS first, max(symbol) AS last
FROM orders GROUP BY upper(symbol), n
"""


def grouped_at_once(orders: Orders, session: SqlSession, sql: str) -> list[dict[str, object]]:
    frame = session.spark.createDataFrame(orders.rows, "id bigint, symbol string, n int")
    frame.createOrReplaceTempView("orders")
    return [row.asDict() for row in session.spark.sql(sql).collect()]


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=repr)


def test_groups_are_kept_from_batch_to_batch(orders: Orders, session: SqlSession) -> None:
    made, chance = in_spark(orders, session, AGGREGATES), random.Random(7)
    for _ in range(examples(3, 15)):
        orders.add(*(chance.randrange(60) for _ in range(chance.randrange(1, 30))))
        made.batch()

    found = [{name: v for name, v in row.items() if "__" not in name} for row in orders.rows_of()]
    assert in_order(found) == in_order(grouped_at_once(orders, session, AGGREGATES))
    assert made.batch() is None


NUMBERS = (Column("id", Scalar("long")), Column("n", Scalar("int")), Column("f", Scalar("float")))
WIDER = [WidenType("n", Scalar("int"), Scalar("long")), WidenType("f", Scalar("float"), Scalar("double"))]


def test_a_widened_column_is_computed_with_where_earlier_rows_keep_their_values(
    orders: Orders, session: SqlSession
) -> None:
    orders.make("lake.numbers", NUMBERS)
    orders.put([{"id": 1, "n": -7, "f": 0.1}], "lake.numbers")
    exact = "n * 2 AS a, CAST(n + 1 AS string) AS b, CAST(f AS double) * 2 AS c, f > 0.1 AS d, to_json(struct(n)) AS e"
    chosen = "n BETWEEN 1 AND 3 AS h, nullif(n, 2) AS i, ifnull(n, 1) AS j, f IN (0.1, 3) AS k, concat('x', n) AS l"
    nulls = (
        "nvl2(f, n, 1) AS m, isnan(f) AS n, zeroifnull(n) AS o, nullifzero(f) AS p, array_contains(array(n), 1) AS q"
    )
    divided = "n / 3BD AS r, 2BD / CAST(n AS decimal(20, 0)) AS s"
    sql = f"SELECT id, {exact}, {chosen}, {nulls}, {divided} FROM numbers"
    made = in_spark(orders, session, sql, source="lake.numbers")
    made.batch()

    orders.lake.change_schema(orders.view("lake.numbers"), WIDER, {})
    orders.put([{"id": 2, "n": 1 << 40, "f": 0.1}], "lake.numbers")
    made.batch()

    assert [row["a"] for row in by_id(orders.rows_of())] == [-14, 1 << 41]
    assert (verify(made).lacks, verify(made).beyond) == (0, 0)


def test_a_widened_column_that_gives_earlier_rows_other_values_halts_until_a_rebuild(
    orders: Orders, session: SqlSession
) -> None:
    """Also if an epoch without rows came between, which is read without a look at the query."""
    orders.make("lake.numbers", NUMBERS)
    orders.put([{"id": 1, "n": 5, "f": 0.1}], "lake.numbers")
    inner = "(SELECT *, n + 1 AS more FROM numbers)"
    sql = f"SELECT id, n * 2 AS twice, hash(nullif(more, 1)) AS h, CAST(f AS string) AS t FROM {inner}"
    made = in_spark(orders, session, sql, source="lake.numbers")
    made.batch()
    orders.lake.change_schema(orders.view("lake.numbers"), WIDER, {})
    orders.put([], "lake.numbers")
    made.batch()
    orders.put([{"id": 2, "n": 5, "f": 0.1}], "lake.numbers")

    with pytest.raises(TransformHaltedError) as halted:
        made.batch()
    assert "(numbers.f from float to double, numbers.n from int to long)" in halted.value.what
    assert "other values: hash(nullif(more, 1), 42), cast(f as string)" in halted.value.what
    assert preview(made).halted is not None
    Rebuild(made, RebuildLake(orders.lake, ["lake.made"])).perform()
    orders.put([{"id": 3, "n": 5, "f": 0.1}], "lake.numbers")
    made.batch()

    assert len({row["h"] for row in orders.rows_of()}) == 1
    assert (verify(made).lacks, verify(made).beyond) == (0, 0)


COMBINED = {
    "SELECT CAST(r AS string) AS t FROM (SELECT e AS r FROM decimals UNION ALL SELECT n FROM decimals)": ["UNION of r"],
    "SELECT r[0] * 2 AS t FROM (SELECT array(e) AS r FROM decimals UNION ALL SELECT array(n) FROM decimals)": [
        "UNION of r"
    ],
    "SELECT CAST(v AS string) AS t FROM (SELECT e, n FROM decimals) UNPIVOT (v FOR k IN (e, n))": ["UNPIVOT"],
    "SELECT coalesce(array(e), array(n))[0] * 2 AS t FROM decimals": [
        "coalesce(cast(array(e) as array<decimal(38,18)>), cast(array(n) as array<decimal(38,18)>))"
    ],
    "SELECT CAST(r AS string) AS t FROM (SELECT d AS r FROM decimals UNION ALL SELECT n FROM decimals)": [],
    "SELECT CAST(e AS decimal(38, 18)) AS r FROM decimals UNION ALL SELECT n FROM decimals": [],
    "SELECT CAST(coalesce(n, h) AS string) AS t FROM decimals": [],
    "SELECT map(h, n) AS t FROM decimals": [],
    "SELECT coalesce(n, k) AS t FROM decimals": ["coalesce(cast(n as decimal(38,18)), cast(k as decimal(38,18)))"],
    "SELECT n BETWEEN h AND 9 AS t FROM decimals": [],
    "SELECT n BETWEEN k AND 9 AS t FROM decimals": [
        "(cast(cast(commonexpressionref(CommonExpressionId(#,false), LongType, true) as decimal(20,0))"
        " as decimal(38,18)) >= cast(k as decimal(38,18)))"
    ],
    "SELECT 1BD / decimal(n) AS t FROM decimals": [],
    "SELECT 1BD / (decimal(n) + abs(n)) AS t FROM decimals": [
        "(1 / (cast(n as decimal(10,0)) + cast(abs(n) as decimal(20,0))))"
    ],
}
"""What gives earlier rows other values once n is a long: beside its 20 digits, 38 leave 18 of the 20 places of e."""


def test_a_type_that_several_values_share_can_have_fewer_places(orders: Orders, session: SqlSession) -> None:
    decimals = {"e": Decimal(30, 20), "d": Decimal(10, 2), "h": Decimal(38, 18), "k": Decimal(38, 20)}
    types = {"n": Scalar("long"), **decimals}
    orders.make("lake.decimals", tuple(Column(name, type_) for name, type_ in types.items()))
    queries, table = SparkQueries(session, orders.lake), TableRows(orders.view("lake.decimals"), ())
    widened = {"decimals": {"n": frozenset({("int", "long")})}}

    found = {sql: queries.check(spec_of(sql, source="lake.decimals"), [table]).plan for sql in COMBINED}

    other = {sql: [*other_values(plan, widened)] for sql, plan in found.items()}
    assert {sql: [re.sub(r"Id\(\d+", "Id(#", each) for each in texts] for sql, texts in other.items()} == COMBINED


def test_only_groups_with_new_rows_are_written_again(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol"
    orders.add(1, 2, 3, 6)
    made = in_spark(orders, session, sql)
    made.batch()
    orders.add(1, 11)
    done = made.batch()

    assert done is not None and done.written == 2
    head = orders.view("lake.made").head_snapshot()
    assert head is not None
    assert (head.figure("added-records"), head.figure("added-position-deletes")) == (2, 1)
    assert in_order(orders.rows_of()) == in_order(grouped_at_once(orders, session, sql))


BIG = (Column("k", Scalar("string")), Column("ns", Scalar("long")))
NOW = 1_790_000_000_000_000_000
"""In nanoseconds."""


def test_an_average_goes_on_when_its_sum_leaves_64_bits(
    orders: Orders, session: SqlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.make("lake.big", BIG)
    sql = "SELECT k, avg(ns) AS mean FROM big GROUP BY k"
    made, earlier = (in_spark(orders, session, sql, name=name, source="lake.big") for name in ("made", "earlier"))
    orders.put([{"k": "a", "ns": NOW}] * 4, "lake.big")
    made.batch()
    with monkeypatch.context() as before:
        narrow = Column("mean__sum", Scalar("long")), Column("mean__count", Scalar("long"))
        before.setattr("frazil.transforms.in_spark._states", lambda *given: [*narrow])
        earlier.batch()
    orders.put([{"k": "a", "ns": NOW + 1024}, {"k": "b", "ns": 1}], "lake.big")
    done = [made.batch(), earlier.batch()]
    orders.put([{"k": "a", "ns": NOW}] * 4, "lake.big")
    made.batch()

    sums = {row["k"]: row["mean__sum"] for row in orders.rows_of()}
    assert sums == {"a": 9 * NOW + 1024, "b": 1}
    assert {row["k"]: row["mean"] for row in orders.rows_of()} == {"a": (9 * NOW + 1024) / 9, "b": 1.0}
    assert verify(made).clean
    assert all(done)
    assert [str(each.type) for each in orders.view("lake.earlier").columns] == ["string", "double", "long", "long"]
    with pytest.raises(QueryFailedError, match="CAST_OVERFLOW") as failed:
        earlier.batch()
    assert "frazil transform rebuild earlier" in failed.value.hint
    Rebuild(earlier, RebuildLake(orders.lake, ["lake.earlier"])).perform()
    assert in_order(orders.rows_of("lake.earlier")) == in_order(orders.rows_of())


def test_the_least_integer_is_taken_out_of_a_sum(orders: Orders, session: SqlSession) -> None:
    made = in_spark(orders, session, "SELECT n, sum(id) AS total, avg(id) AS mean FROM orders GROUP BY n", **CHANGES)
    orders.put([{"id": -(2**63), "symbol": "a", "n": 1}, {"id": 5, "symbol": "a", "n": 1}])
    made.batch()
    orders.change(without=[-(2**63)])
    made.batch()

    assert [(row["total"], row["mean"]) for row in orders.rows_of()] == [(5, 5.0)]
    assert verify(made).clean


NOT_ADDING_UP = [
    ("SELECT sum(CAST(n AS double)) AS s, symbol FROM orders GROUP BY symbol", "adds numbers of the type double"),
    ("SELECT sum(n) + 1 AS s, symbol FROM orders GROUP BY symbol", "computes s from an aggregate"),
    ("SELECT stddev(n) AS s, symbol FROM orders GROUP BY symbol", "only count, sum, avg, min and max are kept"),
    ("SELECT sum(n) AS s FROM orders GROUP BY symbol", "which is not among its columns"),
    ("SELECT sum(n) AS s FROM orders", "add a GROUP BY"),
    ("SELECT symbol, sum(n) AS s FROM orders GROUP BY symbol HAVING s > 1", r"filters groups \(HAVING"),
    ("SELECT symbol FROM orders GROUP BY symbol HAVING sum(n) > 1", r"filters groups \(HAVING"),
    ("SELECT * FROM (SELECT n, count(*) AS c FROM orders GROUP BY n) g WHERE c > 1", r"filters groups \(HAVING"),
    ("SELECT n, avg(id) AS a, max(id) AS a__sum FROM orders GROUP BY n", "keeps a__sum for an average"),
]


@pytest.mark.parametrize(
    ("sql", "what"),
    sampled(NOT_ADDING_UP, lambda case: "double" in case[0] or "a__sum" in case[0] or "HAVING sum" in case[0]),
)
def test_aggregates_that_do_not_add_up_are_refused(orders: Orders, session: SqlSession, sql: str, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())])


DISTINCT = """
SELECT upper(symbol) AS kind, count(DISTINCT id) AS ids, count(*) FILTER (WHERE n > 2) AS large, avg(id) AS mean
FROM orders GROUP BY upper(symbol)
"""


def test_groups_with_distinct_values_are_computed_again_from_all_their_rows(
    orders: Orders, session: SqlSession
) -> None:
    made, chance = in_spark(orders, session, DISTINCT), random.Random(5)
    for _ in range(examples(3, 15)):
        orders.add(*(chance.randrange(30) for _ in range(chance.randrange(1, 6))))
        done = made.batch()

    assert done is not None and done.written < len(orders.rows_of()) == 6
    assert in_order(orders.rows_of()) == in_order(grouped_at_once(orders, session, DISTINCT))
    assert verify(made).clean


CHANGING = (
    "SELECT id, symbol, n AS number, id * 2 AS twice FROM (SELECT * FROM orders WHERE n <> 2) o",
    "SELECT symbol, min(id) AS first, max(n) AS most, sum(n) AS total, avg(id) AS mean FROM orders GROUP BY symbol",
    "SELECT symbol, count(*) AS orders, count(n) AS named, sum(CASE WHEN n > 1 THEN n END) AS total, avg(id) AS mean"
    " FROM orders GROUP BY symbol",
)
CHANGES = {"source_changes": True, "source_identity": ("id",)}


def test_rows_that_change_in_the_followed_table_change_the_rows_made_of_them(
    orders: Orders, session: SqlSession
) -> None:
    made = [in_spark(orders, session, sql, name=f"made{n}", **CHANGES) for n, sql in enumerate(CHANGING)]
    chance = random.Random(9)
    for number in range(examples(3, 15)):
        present = [row["id"] for row in orders.rows]
        orders.change(*chance.sample(range(25), 6), without=chance.sample(present, min(3, len(present))))
        if number == 1:
            compact(orders)
        for each in made:
            each.batch()

    for n, sql in enumerate(CHANGING):
        found = [{k: v for k, v in row.items() if "__" not in k} for row in orders.rows_of(f"lake.made{n}")]
        assert in_order(found) == in_order(grouped_at_once(orders, session, sql))
        assert verify(made[n]).clean


def test_groups_are_filtered_by_a_second_transformation(orders: Orders, session: SqlSession) -> None:
    grouped = "SELECT symbol, count(*) AS orders, sum(n) AS total FROM orders GROUP BY symbol"
    first = in_spark(orders, session, grouped, **CHANGES)
    sql = "SELECT symbol, total, orders FROM made WHERE orders > 2"
    second = in_spark(orders, session, sql, name="large", source="lake.made")
    chance, sizes = random.Random(11), set()
    for _ in range(examples(4, 20)):
        present = [row["id"] for row in orders.rows]
        orders.change(*chance.sample(range(25), 5), without=chance.sample(present, min(7, len(present))))
        first.batch()
        second.batch()
        large = in_order(orders.rows_of("lake.large"))
        wanted = grouped_at_once(orders, session, f"{grouped} HAVING orders > 2")
        assert large == in_order([{name: row[name] for name in ("symbol", "total", "orders")} for row in wanted])
        sizes.add(tuple(row["symbol"] for row in large))

    assert len(sizes) > 2
    assert verify(second).clean


NOT_FOLLOWED = [
    ("SELECT symbol FROM orders", "lacks one of the columns id, unchanged"),
    ("SELECT id + 1 AS id FROM orders", "lacks one of the columns id, unchanged"),
    ("SELECT id, explode(array(1, 2)) AS e FROM orders", "has the step Generate, which may make several rows of one"),
    ("SELECT orders.id FROM orders JOIN users USING (id)", "joins another table with orders, whose rows change"),
    ("SELECT id, n AS __FILE FROM orders", "names a column __FILE"),
    ("SELECT n AS __file, count(*) AS __gone FROM orders GROUP BY n", "names a column __file and __gone"),
    ("SELECT n AS __key0, max(id) AS __key FROM orders GROUP BY n", "names a column __key0, which"),
]


@pytest.mark.parametrize(
    ("sql", "what"), sampled(NOT_FOLLOWED, lambda case: any(each in case[0] for each in ("explode", "+", "AS __")))
)
def test_what_would_not_find_the_rows_of_a_changed_row_is_refused(
    orders: Orders, session: SqlSession, sql: str, what: str
) -> None:
    joins = ("lake.users",) if "users" in sql else ()
    tables = [TableRows(orders.view(), ())]
    if joins:
        orders.make("lake.users", (Column("id", Scalar("long")),))
        tables.append(TableRows(orders.view("lake.users"), ()))
    with pytest.raises(SpecError, match=what):
        SparkQueries(session, orders.lake).check(spec_of(sql, joins=joins, **CHANGES), tables)


def test_integers_of_8_and_16_bits_become_those_of_tables(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT CAST(n AS tinyint) AS n, max(CAST(id AS smallint)) AS last, array(CAST(n AS smallint)) AS l"
    made = in_spark(orders, session, f"{sql} FROM orders GROUP BY CAST(n AS tinyint), array(CAST(n AS smallint))")
    for numbers in ((1, 2, 4), (8, 14)):
        orders.add(*numbers)
        made.batch()

    found = {row["n"]: (row["last"], row["l"]) for row in orders.rows_of()}
    assert found == {1: (1, [1]), 2: (8, [2]), 4: (4, [4]), None: (14, [None])}


def test_names_of_tables_may_have_capitals(orders: Orders, session: SqlSession) -> None:
    orders.make("lake.Orders")
    orders.put([{"id": 1, "symbol": "s", "n": 1}], "lake.Orders")
    made = in_spark(orders, session, "SELECT Id AS id, symbol, N + 1 AS next FROM ORDERS", source="lake.Orders")
    sql = "SELECT symbol, upper(Symbol) AS big, count(*) AS c FROM orders GROUP BY SYMBOL, Upper(o.SYMBOL)"
    groups = in_spark(orders, session, sql.replace("FROM orders", "FROM Orders o"), name="g", source="lake.Orders")

    made.batch()
    groups.batch()
    orders.put([{"id": 2, "symbol": "s", "n": 1}], "lake.Orders")
    groups.batch()

    assert orders.rows_of() == [{"id": 1, "symbol": "s", "next": 2}]
    assert orders.rows_of("lake.g") == [{"symbol": "s", "big": "S", "c": 2}]


def test_verify_compares_with_the_query_over_what_was_read(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol"
    made = in_spark(orders, session, sql)
    orders.add(1, 2, 6)
    made.batch()
    orders.add(3)
    assert verify(made) == Verified(made.spec, *verified_by(orders), rows=2, lacks=0, beyond=0)

    wrong = [{"symbol": "s1", "orders": 3}]
    files = written(orders.lake, orders.view("lake.made"), pa.Table.from_pylist(wrong).to_batches())
    head = orders.view("lake.made").head_snapshot()
    assert head is not None
    orders.lake.stage(orders.view("lake.made"), base=head.id, branch="b", files=files, summary=ours(head.summary))
    orders.lake.publish(orders.view("lake.made"), branch="b", tag="t", drop=["b"])

    found = verify(made)
    assert (found.lacks, found.beyond, found.clean) == (0, 1, False)


def verified_by(orders: Orders) -> tuple[Position | None]:
    head = orders.view("lake.made").head_snapshot()
    state = None if head is None else transform_state(head)
    return (None if state is None else state.position,)


def ours(summary: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in summary.items() if name.startswith("frazil.")}


def test_a_query_is_tested_with_files(orders: Orders, session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"id": 1, "symbol": "a", "n": 1}\n{"id": 2, "symbol": "b", "n": 3}\n{"id": 3}\n'
    )
    (tmp_path / "out.csv").write_text("id,symbol,next\n1,A,2\n4,D,5\n")
    queries = SparkQueries(session, orders.lake)

    found = compared(queries, spec_of(), {ORDERS: tmp_path / "in.jsonl"}, tmp_path / "out.csv")

    assert list(compared_lines(found)) == ["columns: id, symbol, next", "expected  |  found", "4, D, 5   |"]
    (tmp_path / "out.csv").write_text("id,symbol,next\n1,A,2\n")
    assert compared(queries, spec_of(), {ORDERS: tmp_path / "in.jsonl"}, tmp_path / "out.csv").agree
    (tmp_path / "null.csv").write_text("id,symbol,n\n1,null,2\n2,,2\n")
    (tmp_path / "swapped.csv").write_text("id,symbol,next\n1,,3\n2,NULL,3\n")
    found = compared(queries, spec_of(), {ORDERS: tmp_path / "null.csv"}, tmp_path / "swapped.csv")
    assert (len(found.missing), len(found.unexpected)) == (2, 2), "null is not the text null"
    with pytest.raises(QueryFailedError, match="test made: the query fails on a row: DIVIDE_BY_ZERO"):
        by_zero = spec_of("SELECT id, symbol, CAST(1 / (n - 2) AS int) AS next FROM orders")
        compared(queries, by_zero, {ORDERS: tmp_path / "null.csv"}, tmp_path / "out.csv")
    with pytest.raises(Misuse, match="there is no file"):
        compared(queries, spec_of(), {ORDERS: tmp_path / "none.csv"}, tmp_path / "out.csv")
    (tmp_path / "bad.csv").write_text("id,symbol,n\nx,A,2\n")
    with pytest.raises(Misuse, match=r'cannot be read: Malformed records .*For input string: "x"'):
        compared(queries, spec_of(), {ORDERS: tmp_path / "bad.csv"}, tmp_path / "out.csv")


def test_columns_of_files_are_found_by_name(orders: Orders, session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("n,id\n1,5\n")
    (tmp_path / "out.csv").write_text("next,id\n2,5\n")
    queries = SparkQueries(session, orders.lake)

    assert compared(queries, spec_of(), {ORDERS: tmp_path / "in.csv"}, tmp_path / "out.csv").agree

    (tmp_path / "exchanged.csv").write_text("next,id\n5,2\n")
    found = compared(queries, spec_of(), {ORDERS: tmp_path / "in.csv"}, tmp_path / "exchanged.csv")
    assert (found.missing, found.unexpected) == ((("2", None, "5"),), (("5", None, "2"),))


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("in.jsonl", '{"id": 5, "m": 1}\n', "in.jsonl has a column m, which is none of the table's"),
        ("in.csv", "id,Symbol\n5,a\n", "in.csv has a column Symbol, which is none of the table's"),
        ("in.csv", "id,n,id\n5,1,5\n", "in.csv has the column id twice"),
    ],
)
def test_columns_that_a_file_cannot_have_are_refused(
    orders: Orders, session: SqlSession, tmp_path: Path, name: str, text: str, what: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "out.csv").write_text("id\n5\n")

    with pytest.raises(Misuse, match=what):
        compared(SparkQueries(session, orders.lake), spec_of(), {ORDERS: tmp_path / name}, tmp_path / "out.csv")


def test_a_preview_shows_what_a_batch_reads_and_why_none_can_run(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT symbol, avg(n) AS mean FROM orders GROUP BY symbol"
    made = in_spark(orders, session, sql)
    orders.add(1, 2)

    shown = list(preview_lines(preview(made)))

    assert shown[:7] == [
        "transform made: lake.made <- lake.orders (transforms/made.yaml)",
        "  next batch: all 2 rows of lake.orders",
        "  columns:",
        "    symbol       string  <- orders.symbol",
        "    mean         double  <- orders.n",
        "    mean__sum    decimal(38, 0)  kept for an average",
        "    mean__count  long  kept for an average",
    ]
    assert "  reads of orders: n, symbol" in shown
    steps = [line.lstrip(" :+-") for line in shown[shown.index("  plan:") + 1 :]]
    assert steps[0].startswith("Aggregate [symbol")
    assert steps[1] == "Project [symbol, n]"
    made.batch()
    assert "  next batch: nothing new" in preview_lines(preview(made))
    orders.add(4)
    assert "  next batch: 1 row that 1 epoch added to lake.orders" in preview_lines(preview(made))
    changed = in_spark(orders, session, "SELECT symbol FROM orders")
    assert [type(each) for each in problems(changed)] == [TransformHaltedError]
    wrong = in_spark(orders, session, "SELECT symbol FROM orders", name="other", partition_by=("day(symbol)",))
    assert "cannot partition by a column of type string" in str(next(problems(wrong)))
    for name, said in (("nope", "names the column nope"), ("m", "cannot sort by a column of type map")):
        z_order = replace(wrong.spec.maintain, z_order=("symbol", name))
        curved = in_spark(orders, session, "SELECT symbol, map(n, n) AS m FROM orders", name="other", maintain=z_order)
        assert f"maintain.z_order: {name} {said}" in str(next(problems(curved)))


def test_queries_are_checked_against_tables_that_do_not_exist_yet(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT c.id, upper(c.city) AS city FROM customers c JOIN orders o ON o.id = c.id"
    first = in_spark(orders, session, sql, name="cities", source="lake.customers", joins=(ORDERS,))
    second = in_spark(orders, session, "SELECT id, citi FROM cities", name="again", source="lake.cities")
    to_be: dict[str, tuple[Column, ...]] = {
        "lake.customers": (Column("id", Scalar("long")), Column("city", Scalar("string")))
    }

    assert list(problems(first, to_be)) == []
    assert to_be["lake.cities"] == (Column("id", Scalar("long")), Column("city", Scalar("string")))
    assert ["`citi` cannot be resolved" in str(each) for each in problems(second, to_be)] == [True]
    typo = in_spark(orders, session, "SELECT id FRM customers GROUP", name="typo", source="lake.customers")
    assert [type(each) for each in problems(typo, to_be)] == [SpecError]
    assert orders.lake.load("lake.customers") is None


TRADES = tuple(
    Column(name, Scalar(kind))  # type: ignore[arg-type]
    for name, kind in (
        ("side", "string"), ("quantity", "int"), ("symbol", "string"), ("price", "int"), ("account", "string"),
        ("userid", "string"), ("kafka_timestamp", "timestamptz"),
    )
)  # fmt: skip
AT = datetime(2026, 1, 1, tzinfo=UTC)


def trade(price: int, quantity: int, userid: str = "u") -> dict[str, object]:
    about = {"side": "BUY", "symbol": "ZVZZT", "account": "a", "userid": userid, "kafka_timestamp": AT}
    return {**about, "price": price, "quantity": quantity}


def test_the_shipped_transformations_total_stock_trades(orders: Orders, session: SqlSession) -> None:
    shipped = {spec.name: spec for spec in settings_of_the_checkout().transforms}
    orders.make("lake.stock_trades", TRADES)
    made = {
        name: Transformation(spec, orders.lake, lambda: SparkQueries(session, orders.lake), lambda: "w")
        for name, spec in shipped.items()
    }
    orders.put([trade(2**30, 1000), trade(5, 2)], "lake.stock_trades")
    for each in made.values():
        each.batch()
    orders.put([trade(1, 1), trade(7, 3, "other")], "lake.stock_trades")
    made["stock_total_trades"].batch()

    about = {"traded_at": AT, "side": "BUY", "symbol": "ZVZZT"}
    assert in_order(orders.rows_of("lake.stock_total_trades")) == in_order(
        [
            {**about, "userid": "u", "total": Number(2**30 * 1000 + 11), "trades": 3},
            {**about, "userid": "other", "total": Number(21), "trades": 1},
        ]
    )
    totals = [row["total"] for row in orders.rows_of("lake.stock_trades_with_totals")]
    assert sorted(totals) == [10, 2**30 * 1000]


def settings_of_the_checkout() -> Settings:
    root = Path(__file__).parents[2]
    return load_settings(root / "frazil.yaml", {}, NoSecrets(), local=lambda name: "http://127.0.0.1:1")


def test_the_shipped_totals_are_records_of_their_topic(orders: Orders, session: SqlSession, tmp_path: Path) -> None:
    """Each batch sends the newest total of each group that it met, as a plain sum over all trades so far says."""
    spec = shipped_totals_with_output(tmp_path / "checkout")
    sent = Sent(orders, OutputTopicsInMemory({"stock_total_trades": 2}))
    orders.make("lake.stock_trades", TRADES)
    made = sent.sending(in_spark_as(orders, session, spec))
    trades = [[trade(2**30, 1000), trade(5, 2), trade(7, 3, "other")], [trade(1, 1), trade(0, 9, "third")]]
    expected, totals = [], dict[str, tuple[int, int]]()
    for batch in trades:
        orders.put(batch, "lake.stock_trades")
        made.batch()
        assert made.send() is None
        for each in batch:
            total, count = totals.get(str(each["userid"]), (0, 0))
            totals[str(each["userid"])] = total + int(str(each["price"])) * int(str(each["quantity"])), count + 1
        expected += [(user, *totals[user]) for user in {str(each["userid"]) for each in batch}]

    found = sent.records_of("stock_total_trades")
    about = {"traded_at": AT, "side": "BUY", "symbol": "ZVZZT"}
    assert in_order([{**key, **value} for key, value in found]) == in_order(
        [{**about, "userid": user, "total": Number(total), "trades": count} for user, total, count in expected]
    )
    assert [key for key, _ in found] == [{**about, "userid": value["userid"]} for _, value in found]
    assert types_of(sent, "stock_total_trades-key") == TYPES_OF_KEYS
    assert types_of(sent, "stock_total_trades-value") == TYPES_OF_KEYS | {
        "total": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
        "trades": "long",
    }


TYPES_OF_KEYS = {
    "traded_at": {"type": "long", "logicalType": "timestamp-micros"},
    "userid": "string",
    "side": "string",
    "symbol": "string",
}


def types_of(sent: Sent, subject: str) -> dict[str, object]:
    """The types of a registered schema's fields, each of which may be null and is null by default."""
    (text,) = [text for known, text in sent.schemas.texts if known == subject]
    fields = json.loads(text)["fields"]
    assert all(field["type"][0] == "null" and field["default"] is None for field in fields)
    return {field["name"]: field["type"][1] for field in fields}


def shipped_totals_with_output(folder: Path) -> TransformSpec:
    """The shipped spec, with the output that it has as a comment."""
    root = Path(__file__).parents[2]
    for name in ("tables", "transforms"):
        shutil.copytree(root / name, folder / name)
    shutil.copy(root / "frazil.yaml", folder)
    file = folder / "transforms/stock_total_trades.yaml"
    kept, commented = file.read_text().split("# outputs:")
    file.write_text(f"{kept}outputs:{commented.replace(chr(10) + '#', chr(10))}")
    settings = load_settings(folder / "frazil.yaml", {}, NoSecrets(), local=lambda name: "http://127.0.0.1:1")
    (spec,) = [each for each in settings.transforms if each.name == "stock_total_trades"]
    assert [output.topic for output in spec.outputs] == ["stock_total_trades"]
    return spec


def test_files_without_a_group_of_the_batch_are_not_read(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT id AS number, count(*) AS orders, max(n) AS n FROM (SELECT * FROM orders) GROUP BY id"
    made = in_spark(orders, session, sql)
    orders.add(1, 2)
    made.batch()
    old = orders.lake.stored_files(orders.view("lake.made"))
    orders.add(8, 9)
    made.batch()
    for file in old:
        Path(file.path.removeprefix("file://")).rename(tmp := Path(file.path.removeprefix("file://") + ".gone"))
    orders.add(9, 10)
    made.batch()
    tmp.rename(tmp.with_suffix(""))

    assert in_order(orders.rows_of()) == in_order(grouped_at_once(orders, session, sql))


def test_groups_without_aggregates_are_each_row_once(orders: Orders, session: SqlSession) -> None:
    sql = "SELECT upper(symbol) AS symbol, n FROM orders GROUP BY upper(symbol), n"
    sent = Sent(orders)
    made = sent.sending(in_spark_as(orders, session, spec_of(sql, outputs=(OutputSpec(TOPIC, TOPIC),))))
    for numbers in ((1, 31, 2, 77), (1, 3, 77, 154)):
        orders.add(*numbers)
        made.batch()
        assert made.send() is None

    assert in_order(orders.rows_of()) == in_order(grouped_at_once(orders, session, sql))
    assert len(orders.rows_of()) == 4
    assert verify(made).clean
    assert {tuple(key.values()) for key, _ in sent.records} == {tuple(row.values()) for row in orders.rows_of()}


def test_groups_without_aggregates_go_with_their_last_row(orders: Orders, session: SqlSession) -> None:
    made = in_spark(orders, session, "SELECT symbol, n FROM orders GROUP BY symbol, n", **CHANGES)
    orders.change(1, 6, 2, 11)
    made.batch()
    orders.change(3, without=(1, 2))
    made.batch()

    found = [{name: row[name] for name in ("symbol", "n")} for row in orders.rows_of()]
    assert in_order(found) == in_order(
        [dict(pair) for pair in {(("symbol", r["symbol"]), ("n", r["n"])) for r in orders.rows}]
    )
    assert verify(made).clean


def test_groups_meet_their_stored_rows_whatever_their_keys_are(orders: Orders, session: SqlSession) -> None:
    columns = (Column("ratio", Scalar("double")), Column("items", ListOf(Scalar("int"))), Column("day", Scalar("date")))
    orders.make("lake.keys", columns)
    sql = "SELECT ratio, items, day, count(*) AS rows FROM keys GROUP BY ratio, items, day"
    made = in_spark(orders, session, sql, source="lake.keys")
    row = {"ratio": 0.0, "items": [1], "day": date(2026, 1, 1)}
    for rows in ([row, dict.fromkeys(row)], [row | {"ratio": -0.0}, dict.fromkeys(row)], [row | {"day": None}]):
        orders.put(rows, "lake.keys")
        made.batch()

    assert in_order(orders.rows_of()) == in_order(
        [{**row, "rows": 2}, {**dict.fromkeys(row), "rows": 2}, {**row, "day": None, "rows": 1}]
    )


def test_groups_of_a_union_meet_their_stored_rows(orders: Orders, session: SqlSession) -> None:
    sql = """
    SELECT id, count(*) AS orders
    FROM (SELECT id FROM orders UNION ALL SELECT CAST(0 AS bigint) FROM orders) GROUP BY id
    """
    made = in_spark(orders, session, sql)
    for number in (5, 9):
        orders.add(number)
        made.batch()

    assert in_order(orders.rows_of()) == in_order(grouped_at_once(orders, session, sql))


def test_groups_are_computed_again_with_the_joined_tables_as_they_met_them(orders: Orders, session: SqlSession) -> None:
    orders.make("lake.titles", (Column("symbol", Scalar("string")), Column("title", Scalar("string"))))
    sql = """
    SELECT title, count(*) AS orders, avg(id) AS mean FROM orders JOIN titles USING (symbol) GROUP BY title
    """
    made = in_spark(orders, session, sql, joins=("lake.titles",))
    for number, symbol in ((1, "s1"), (2, "s2")):
        orders.put([{"symbol": symbol, "title": f"title {number}"}], "lake.titles")
        orders.add(number, 6, 7)
        made.batch()
    rows = in_order(orders.rows_of())
    compact(orders)

    assert verify(made).clean
    Rebuild(made, RebuildLake(orders.lake, ["lake.made"])).perform()

    assert [(row["title"], row["orders"]) for row in rows] == [("title 1", 3), ("title 2", 2)]
    assert in_order(orders.rows_of()) == rows


def test_rows_are_taken_out_of_others_with_maps(session: SqlSession) -> None:
    rows = session.spark.sql(
        "SELECT map('b', 1, 'a', named_struct('m', map(1, x)).m[1]) AS m, x FROM VALUES (1), (1), (2) t(x)"
    )
    other = session.spark.sql("SELECT map('a', 1, 'b', 1) AS m, 1 AS x")

    found = except_all(rows, other)

    assert found.schema == rows.schema
    assert sorted((row.x, row.m) for row in found.collect()) == [(1, {"a": 1, "b": 1}), (2, {"a": 2, "b": 1})]


def test_each_table_of_a_joined_union_is_read(orders: Orders, session: SqlSession) -> None:
    for name, symbol in (("old", "s1"), ("new", "s2")):
        orders.make(f"lake.{name}", (Column("symbol", Scalar("string")), Column("title", Scalar("string"))))
        orders.put([{"symbol": symbol, "title": name}], f"lake.{name}")
    sql = """
    SELECT id, title FROM orders JOIN (SELECT * FROM old UNION ALL SELECT * FROM new) USING (symbol)
    WHERE symbol IN (SELECT symbol FROM old) OR symbol NOT IN (SELECT symbol FROM old)
    """
    orders.add(1, 2)
    in_spark(orders, session, sql, joins=("lake.old", "lake.new")).batch()

    assert by_id(orders.rows_of()) == [{"id": 1, "title": "old"}, {"id": 2, "title": "new"}]


def test_a_query_sees_no_table_that_only_another_transformation_reads(orders: Orders, session: SqlSession) -> None:
    orders.make("lake.users", (Column("id", Scalar("long")),))
    orders.put([{"id": 1}], "lake.users")
    orders.add(1, 2)
    sql = "SELECT orders.id FROM orders JOIN users USING (id)"
    in_spark(orders, session, sql, joins=("lake.users",)).batch()

    with pytest.raises(SpecError, match="`users` cannot be found"):
        in_spark(orders, session, sql, name="other").batch()


def test_verify_computes_averages_as_batches_do(orders: Orders, session: SqlSession) -> None:
    made = in_spark(orders, session, "SELECT n, avg(id) AS mean FROM orders GROUP BY n")
    for _ in range(3):
        orders.add(2**53 + 1)
        made.batch()

    assert verify(made).clean


@pytest.mark.parametrize("changes", [{}, CHANGES], ids=["added", "changed"])
def test_the_average_of_decimals_is_null_where_there_is_none(
    orders: Orders, session: SqlSession, changes: dict[str, object]
) -> None:
    made = in_spark(
        orders, session, "SELECT symbol, avg(CAST(n AS decimal(12, 2))) AS mean FROM orders GROUP BY symbol", **changes
    )
    for numbers in ((7, 1), (11, 14)):
        orders.add(*numbers)
        made.batch()

    assert {row["symbol"]: row["mean"] for row in orders.rows_of()} == {"s2": None, "s1": 1, None: 5, "s4": None}
    assert verify(made).clean


def test_a_sum_that_is_null_beyond_its_type_is_refused(orders: Orders, session: SqlSession) -> None:
    for function in ("try_sum", "try_avg"):
        with pytest.raises(SpecError, match="only count, sum, avg, min and max are kept"):
            sql = f"SELECT n, {function}(id) AS total FROM orders GROUP BY n"
            SparkQueries(session, orders.lake).check(spec_of(sql), [TableRows(orders.view(), ())])


def test_files_of_groups_are_rewritten_and_the_groups_are_kept_on(
    orders: Orders, session: SqlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    made = in_spark(orders, session, "SELECT n, count(*) AS orders, sum(id) AS total FROM orders GROUP BY n")
    made.upkeep = Upkeep(made.spec, source_of(orders, InProcessRunner()), "w")

    for first in (1, 5, 9):
        orders.add(*range(first, first + 4))
        made.batch()

    view = orders.view("lake.made")
    head = view.head_snapshot()
    assert head is not None
    assert (is_rewrite(head), head.figure("total-position-deletes")) == (True, 0)
    state = transform_state(view.snapshots[view.tags[CHECKPOINT_TAG]])
    assert state is not None and state.position is not None
    assert state.position.epoch == 3
    orders.add(13, 14, 15)
    made.batch()
    assert verify(made).clean
