"""One table, three readers: PyIceberg, Spark and DuckDB see equal rows, with any partitioning and storage.

Spark has no type for Iceberg's time: tables for it have no such column (DuckDB and PyIceberg read it).
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from breadth import Place, Table, catch_up, encode, glue_catalog, record_of
from every_reader import BATCHES, REMOVALS, REWRITES, WRITES, Readers, alike_rows
from every_type import ADDRESS, FIELDS, LEAST, SCHEMA, TIMES, USUAL, plain
from pyiceberg.conversions import from_bytes
from pyspark.sql import SparkSession
from spark_reader import in_spark, name_in_spark, spark_session, use_catalog
from walk_through import DOCS, WalkThrough

from frazil.local.supervisor import LocalServices
from frazil.maintain import rewriting
from frazil.model.errors import IncompatibleSchemaError
from tests.sampling import sampled

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""The gateway to the JVM leaves its sockets to the garbage collector."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session


def test_spark_reads_what_is_left_of_change_events(
    spark: SparkSession, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "debezium.md").read_text(encoding="utf-8")
    walk = WalkThrough(place, capsys)

    walk.follow(page.replace("shop.public.customers", place.topic()).replace("lake.", f"{place.name}."))

    assert len(walk.shown) == 3
    found = [(row["id"], row["email"], row["__op"]) for row in in_spark(spark, Table(place.run(walk.spec)))]
    assert sorted(found) == [(1, "ada@example.com", "r"), (2, "bob@example.org", "u"), (4, "kim@example.com", "c")]


def extension(name: str) -> str:
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert found is not None
    assert found.origin is not None
    return str(next(Path(found.origin).parent.rglob(f"{name}.duckdb_extension")))


@pytest.fixture(scope="module")
def duck(services: LocalServices) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"load '{extension(name)}'")
    endpoint = services.aws_endpoint_url.removeprefix("http://")
    connection.execute(
        f"create secret (type s3, key_id 'local', secret 'local', region 'us-east-1', endpoint '{endpoint}',"
        " use_ssl false, url_style 'path')"
    )
    connection.execute("set timezone = 'UTC'")
    return connection


def in_duck(duck: duckdb.DuckDBPyConnection, table: Table) -> list[dict[str, Any]]:
    metadata = table.view.current.metadata_location
    found = duck.execute(f"select * from iceberg_scan('{metadata}') order by kafka_partition, kafka_offset")
    return found.to_arrow_table().to_pylist()  # DuckDB's own Python values of times need a library more


def filtered(table: str) -> str:
    """For each filter the records that it finds, each by a scan of its own that may pass files over."""
    scans = (
        f"select {n} as filter, kafka_partition, kafka_offset from {table} where {where}"
        for n, where in enumerate(FILTERS)
    )
    return " union all ".join(scans) + " order by 1, 2, 3"


def test_all_engines_read_rows_that_a_field_of_the_key_orders(
    place: Place, spark: SparkSession, duck: duckdb.DuckDBPyConnection
) -> None:
    topic, value = place.topic(), record_of(("n", "int"))
    value_id = place.register(f"{topic}-value", value)

    def send(version: tuple[str, ...], *records: tuple[str, int, int | None]) -> None:
        key = record_of(("id", "string"), version, name="Key")
        key_id = place.register(f"{topic}-key", key)
        for who, at, n in records:
            (sent,) = encode(key, key_id, {"id": who, version[0]: at})
            place.send(topic, None if n is None else encode(value, value_id, {"n": n})[0], key=sent)

    send(("version", "int"), ("a", 5, 1), ("b", 5, 2), ("c", 5, 3))
    order = "identity: [kafka_key.id]\norder_by: kafka_key.version"
    table = place.materialize(f"topic: {topic}\nkey: avro\nwrite: upsert\n{order}")
    send(("revision", "long", "version"), ("a", 4, 4), ("b", 6, 5), ("c", 2**40, None), ("c", 9, 6))
    catch_up(table.of)

    rows = table.rows()
    assert [(*row["kafka_key"].values(), row["n"]) for row in rows] == [("a", 5, 1), ("b", 6, 5)]
    assert alike_rows(in_spark(spark, table)) == alike_rows(in_duck(duck, table)) == alike_rows(rows)


# --- every type -----------------------------------------------------------------------------------------------------


def everything(place: Place, *, without: Sequence[str] = ()) -> Table:
    schema = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] not in without]}
    topic = place.topic()
    place.register(f"{topic}-address", ADDRESS)
    schema_id = place.register(f"{topic}-value", schema, references=[("shop.Address", f"{topic}-address")])
    rows = [{name: value for name, value in row.items() if name not in without} for row in (USUAL, LEAST)]
    place.send(topic, *encode(plain(schema), schema_id, *rows, uses=[ADDRESS]), key=b"k")
    return place.materialize(
        f"topic: {topic}\nreaders: [duckdb]\nmetadata: {{keep: [timestamp, key, headers, schema_id, value]}}"
    )


OPENING = record_of(("opens", {"type": "int", "logicalType": "time-millis"}))


def test_duckdb_reads_every_type(place: Place, duck: duckdb.DuckDBPyConnection) -> None:
    table = everything(place)

    assert alike_rows(in_duck(duck, table)) == alike_rows(table.rows())


def test_spark_reads_every_type_but_times(place: Place, spark: SparkSession) -> None:
    table = everything(place, without=TIMES)

    assert set(table.types) >= set(FIELDS) - set(TIMES)
    assert alike_rows(in_spark(spark, table)) == alike_rows(table.rows())


# --- partitions -----------------------------------------------------------------------------------------------------

TRADE = record_of(
    ("symbol", ["null", "string"]),
    ("price", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]),
    ("ts", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("due", ["null", {"type": "int", "logicalType": "date"}]),
    ("n", ["null", "long"]),
)
SECONDS = 1_000_000


def trades(count: int = 200) -> list[dict[str, Any]]:
    """Times on both sides of 1970, numbers on both sides of nought, every fifth value null."""
    seeded = random.Random(5)

    def or_null(value: Any) -> Any:
        return None if seeded.random() < 0.2 else value

    return [
        {
            "symbol": or_null(seeded.choice(["ABC", "ABD", "ZÜRICH", "", "a/b"])),
            "price": or_null(seeded.randrange(-500, 500).to_bytes(2, "big", signed=True)),
            "ts": or_null(seeded.randrange(-90 * 86_400, 90 * 86_400) * SECONDS),
            "due": or_null(seeded.randrange(-400, 400)),
            "n": or_null(seeded.randrange(-30, 30)),
        }
        for _ in range(count)
    ]


PARTITIONS = sampled(
    (
        "[symbol]",
        "[price]",
        "[year(ts)]",
        "[day(ts)]",
        "[hour(ts)]",
        "[day(due), bucket(4, price)]",
        "[bucket(4, n), truncate(2, symbol)]",
        "[truncate(50, price)]",
        "[month(ts), bucket(2, symbol), truncate(20, n)]",
        "[]",
    ),
    keep=lambda by: "," in by or by in ("[symbol]", "[]"),
)
"""A sample has every kind of transform on a column of some type; a long run has more types."""

FILTERS = (
    "symbol = 'ABC'",
    "symbol is null",
    "price < 0",
    "price = 1.25 or price > 4.5",
    "ts >= timestamp '1970-01-01 00:00:00' and ts < timestamp '1970-01-15 12:00:00'",
    "ts < timestamp '1969-12-01 00:00:00'",
    "due between date '1969-12-25' and date '1970-01-10'",
    "n = -7",
    "n is null",
)


@pytest.fixture(scope="module")
def market(services: LocalServices, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Place, Table]]:
    """The same topic in a table for each way of partitioning, all in one catalog."""
    place = Place(services, tmp_path_factory.mktemp("market"))
    topic = place.topic(partitions=2)
    schema_id = place.register(f"{topic}-value", TRADE)
    sent = encode(plain(TRADE), schema_id, *trades())
    place.send(topic, *sent[:120])
    place.send(topic, *sent[120:], partition=1)
    specs = [f"topic: {topic}\ntable: t{n}\npartition_by: {by}" for n, by in enumerate(PARTITIONS)]
    tables: dict[str, tuple[Place, Table]] = {}
    for by, run in zip(PARTITIONS, place.runs(*specs), strict=True):
        run.batch()
        tables[by] = place, Table(run)
    return tables


@pytest.mark.parametrize("by", PARTITIONS)
def test_all_readers_agree_however_a_table_is_partitioned(
    market: dict[str, tuple[Place, Table]], spark: SparkSession, duck: duckdb.DuckDBPyConnection, by: str
) -> None:
    """With filters too: wrong partitions or bounds would make a reader miss rows."""
    _, table = market[by]
    _, unpartitioned = market["[]"]
    rows = alike_rows(table.rows())

    assert rows == alike_rows(unpartitioned.rows())
    assert alike_rows(in_spark(spark, table)) == rows
    assert alike_rows(in_duck(duck, table)) == rows
    metadata = f"iceberg_scan('{table.view.current.metadata_location}')"
    expected = judged(unpartitioned, duck)
    assert duck.execute(filtered(metadata)).fetchall() == expected
    assert [tuple(row) for row in spark.sql(filtered(name_in_spark(table))).collect()] == expected


def judged(table: Table, duck: duckdb.DuckDBPyConnection) -> list[tuple[int, int, int]]:
    """What `filtered` must find: every filter judged for every row, with no way to pass any file over."""
    answers = ", ".join(f"coalesce({where}, false)" for where in FILTERS)
    metadata = table.view.current.metadata_location
    rows = duck.execute(f"select kafka_partition, kafka_offset, {answers} from iceberg_scan('{metadata}')").fetchall()
    return sorted((n, row[0], row[1]) for row in rows for n in range(len(FILTERS)) if row[2 + n])


def test_every_filter_finds_something_and_not_everything(
    market: dict[str, tuple[Place, Table]], duck: duckdb.DuckDBPyConnection
) -> None:
    found = [n for n, _, _ in judged(market["[]"][1], duck)]

    assert all(0 < found.count(n) < 200 for n in range(len(FILTERS)))


def test_spark_finds_none_of_a_list_of_texts_unless_nulls_are_left_out(
    market: dict[str, tuple[Place, Table]], spark: SparkSession
) -> None:
    """Iceberg 1.11.0 looks for the partition null in the list, as `docs/architecture.md` says."""
    _, table = market["[symbol]"]
    use_catalog(spark, table)
    counted, listed = f"select count(*) from {name_in_spark(table)} where ", "symbol in ('ABC', 'ABD')"

    with pytest.raises(Exception, match="NullPointerException: Invalid object: null"):
        spark.sql(counted + listed).collect()
    [(found,)] = spark.sql(f"{counted} symbol is not null and {listed}").collect()

    assert found == sum(row["symbol"] in ("ABC", "ABD") for row in table.rows())


def test_spark_would_have_made_the_same_partitions_and_bounds(
    market: dict[str, tuple[Place, Table]], spark: SparkSession
) -> None:
    """Spark writes the rows into a table of the same shape; then both tables' metadata say the same."""
    _, table = market["[month(ts), bucket(2, symbol), truncate(20, n)]"]
    use_catalog(spark, table)
    name = name_in_spark(table)
    spark.sql(f"drop table if exists {name}_by_spark")
    spark.sql(
        f"create table {name}_by_spark using iceberg partitioned by (months(ts), bucket(2, symbol), truncate(20, n))"
        f" tblproperties ('write.distribution-mode' = 'hash') as select * from {name}"
    )

    facts = "partition, record_count, lower_bounds, upper_bounds, null_value_counts"
    ours = spark.sql(f"select {facts} from {name}.files").collect()
    theirs = spark.sql(f"select {facts} from {name}_by_spark.files").collect()

    assert sorted(map(_comparable, ours)) == sorted(map(_comparable, theirs))


def _comparable(row: Any) -> str:
    """Bounds of the record's own columns; how Java and C++ order a file's rows does not matter to them."""
    partition, count, lower, upper, nulls = row
    bounds = [(n, bytes(lower[n]).hex(), bytes(upper[n]).hex()) for n in sorted(lower)]
    return repr((tuple(partition), count, bounds, sorted(nulls.items())))


def test_bounds_let_a_reader_pass_files_over(market: dict[str, tuple[Place, Table]]) -> None:
    _, table = market["[day(due), bucket(4, price)]"]
    due = next(row["due"] for row in table.rows() if row["due"] is not None)

    chosen = list(table.view.current.scan(row_filter=f"due == '{due}'").plan_files())

    every = list(table.view.current.scan().plan_files())
    assert 0 < len(chosen) < len(every) / 10
    schema = table.view.current.schema()
    field = schema.find_field("price")
    for task in every:
        low, high = (bounds.get(field.field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds))
        if low is not None and high is not None:
            assert from_bytes(field.field_type, low) <= from_bytes(field.field_type, high)


# --- on S3, listed by Glue ------------------------------------------------------------------------------------------


@pytest.fixture
def on_s3(services: LocalServices, tmp_path: Path) -> Place:
    return Place(services, tmp_path, catalog=glue_catalog(services))


def test_a_table_on_s3_listed_by_glue_reads_the_same(on_s3: Place, duck: duckdb.DuckDBPyConnection) -> None:
    table = everything(on_s3)

    rows = table.rows()

    assert len(rows) == 2
    assert table.view.location.startswith("s3://")
    assert alike_rows(in_duck(duck, table)) == alike_rows(rows)
    assert rows[0]["decimal_bytes"] == Decimal("-123.45")
    assert rows[0]["date"] == date(2024, 10, 4)


def test_spark_reads_every_type_but_times_on_s3_listed_by_glue(
    on_s3: Place, spark: SparkSession, duck: duckdb.DuckDBPyConnection
) -> None:
    table = everything(on_s3, without=TIMES)

    rows = alike_rows(table.rows())

    assert len(rows) == 2
    assert alike_rows(in_spark(spark, table)) == rows
    assert alike_rows(in_duck(duck, table)) == rows


def test_all_readers_agree_on_a_partitioned_table_on_s3_listed_by_glue(
    on_s3: Place, market: dict[str, tuple[Place, Table]], spark: SparkSession, duck: duckdb.DuckDBPyConnection
) -> None:
    """With filters too: wrong partitions or bounds would make a reader miss rows."""
    _, unpartitioned = market["[]"]
    table = on_s3.materialize(f"topic: {unpartitioned.spec.topics[0]}\npartition_by: [month(ts), bucket(2, symbol)]")
    rows, expected = alike_rows(unpartitioned.rows()), judged(unpartitioned, duck)

    assert alike_rows(table.rows()) == rows
    assert alike_rows(in_spark(spark, table)) == rows
    assert alike_rows(in_duck(duck, table)) == rows
    assert [tuple(row) for row in spark.sql(filtered(name_in_spark(table))).collect()] == expected


def test_spark_refuses_a_table_with_a_time_as_the_documentation_says(place: Place, spark: SparkSession) -> None:
    topic = place.topic()
    schema_id = place.register(f"{topic}-value", OPENING)
    place.send(topic, *encode(plain(OPENING), schema_id, {"opens": 1}))

    with pytest.raises(Exception, match="Spark does not support time fields"):
        in_spark(spark, place.materialize(f"topic: {topic}"))
    with pytest.raises(IncompatibleSchemaError, match="opens: is a time, which Spark cannot read"):
        place.run(f"topic: {topic}\ntable: for_spark\nreaders: [spark]").batch()


# --- after each write and each action of maintenance ------------------------------------------------------------------


@pytest.mark.parametrize("write", sampled(WRITES, keep=lambda write: write == "upsert"))
def test_all_readers_agree_after_each_batch_and_each_action(
    write: str,
    place: Place,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Readers(place, spark, capsys, write)
    for batch, keys in zip(BATCHES, WRITES[write], strict=True):
        table.send(*batch)
        assert table.keys == keys
    in_delta = table.delta_state

    for action, procedure in REWRITES.items():
        table.maintain(procedure)
        assert (action, table.keys, table.delta_state) == (action, WRITES[write][-1], "current")
    table.send(("d", 9))
    for action, procedure in REMOVALS.items():
        table.maintain(procedure)
        assert (action, table.keys, table.delta_state) == (action, "".join(sorted(WRITES[write][-1] + "d")), "current")
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    table.send(("e", 9))

    assert table.keys == "".join(sorted(WRITES[write][-1] + "de"))
    assert in_delta == ("withheld" if write in ("upsert", "history") else "current")
