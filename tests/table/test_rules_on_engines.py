"""The readers' rules, row by row, on the engines that run here: what is refused fails, and what is fine is read."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import CATALOG_NAME, IcebergLake
from frazil.adapters.iceberg.types import to_schema
from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.reader_rules import RULES, ReaderRule, warned_columns
from frazil.model.settings import CatalogSettings
from tests.fakes.duckdb_once import engine
from tests.faults.procedures import Procedures, procedures

CASES = (Column("total", Scalar("string")), Column("Total", Scalar("string")))
NANOSECONDS = [rule for rule in RULES if rule.tested == "on the engine" and rule.feature.endswith("_ns")]
"""Types of Iceberg's format version 3: "type timestamp_ns"."""
ON_ENGINES = [
    pytest.param(rule, columns, id=f"{rule.reader}-{rule.feature[:30]}-{n}")
    for rule in RULES
    if rule.tested == "on the engine"
    and rule not in NANOSECONDS
    and (rule.reader, rule.verdict) != ("pyiceberg", "warn")
    for n, columns in enumerate([(each,) for each in rule.examples.of] or [CASES])
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path_factory.mktemp("warehouse"))))
    lake.catalog.create_namespace_if_not_exists("lake")
    return lake


@pytest.fixture(scope="module")
def spark(lake: IcebergLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Procedures]:
    warehouse = str(lake.catalog.properties["warehouse"]).removeprefix("file://")
    with procedures(tmp_path_factory.mktemp("spark"), {CATALOG_NAME: CatalogSettings("jdbc", warehouse)}) as running:
        yield running


VALUES: dict[ColumnType, Any] = {
    Scalar("time"): dt.time(9, 30),
    Scalar("uuid"): UUID(int=7).bytes,
    Scalar("binary"): b"v",
    Scalar("string"): "v",
    Scalar("timestamp"): dt.datetime(2026, 1, 1),
    Scalar("timestamptz"): dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
}
NS = 1_767_225_600_000_000_123


def value_of(column_type: ColumnType) -> Any:
    match column_type:
        case Fixed(length):
            return b"x" * length
        case Struct(columns):
            return {column.name: value_of(column.type) for column in columns}
        case ListOf(element):
            return [value_of(element)]
        case MapOf(key, value):
            return [(value_of(key), value_of(value))]
        case _:
            return VALUES[column_type]


def made(lake: IcebergLake, columns: tuple[Column, ...]) -> Table:
    name = f"lake.t{len(lake.catalog.list_tables('lake'))}"
    table = lake.catalog.create_table(name, to_schema(columns))
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    arrays = [pa.array([value_of(column.type)], field.type) for column, field in zip(columns, schema, strict=True)]
    table.append(pa.Table.from_arrays(arrays, schema=schema))
    return table


def read(reader: str, table: Table, spark: Procedures) -> tuple[str, ...]:
    """Return the names of the columns of the table's one row, as the reader sees them. Raises what the reader says."""
    if reader == "spark":
        (row,) = spark.sql(f"SELECT * FROM {CATALOG_NAME}.lake.{table.name()[1]}")
        return tuple(row)
    if reader == "pyiceberg":
        return tuple(table.scan().to_arrow().column_names)
    found = engine().execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')")
    assert len(found.fetchall()) == 1
    return tuple(each[0] for each in found.description)


@pytest.mark.parametrize(("rule", "columns"), ON_ENGINES)
def test_an_engine_reads_what_its_rule_says(
    rule: ReaderRule, columns: tuple[Column, ...], lake: IcebergLake, spark: Procedures
) -> None:
    table, names, seen = made(lake, columns), tuple(column.name for column in columns), None

    with suppress(Exception if rule.verdict != "fine" else ()):
        seen = read(rule.reader, table, spark)

    assert table.scan().to_arrow().num_rows == 1, "PyIceberg, with which Frazil verifies, reads every table"
    assert (seen == names) is (rule.verdict == "fine")


PLAIN = """
import json, sys
from pyiceberg.table import StaticTable
print(json.dumps(StaticTable.from_metadata(sys.argv[1]).scan().to_arrow().column("v").to_pylist()))
"""
"""Frazil's own processes read such values by the ids of their fields."""


@pytest.mark.parametrize("is_null", [True, False], ids=["null", "renamed"])
def test_plain_pyiceberg_reads_structs_in_lists_as_its_warnings_say(lake: IcebergLake, is_null: bool) -> None:
    fields, within = Struct((Column("x", Scalar("string")),)), "v.element.element.x"
    column = Column("v", ListOf(fields if is_null else ListOf(fields)))
    assert len(warned_columns(("pyiceberg",), (column,))) == 1
    table = made(lake, (column,))
    if is_null:
        table.append(pa.table({"v": pa.array([None], schema_to_pyarrow(table.schema()).field("v").type)}))
    else:
        table.update_schema().rename_column(within, "y").commit()

    ran = subprocess.run([sys.executable, "-c", PLAIN, table.metadata_location], stdout=subprocess.PIPE, check=True)

    expected: list[Any] = [[], [{"x": "v"}]] if is_null else [[[{"y": None}]]]
    assert sorted(json.loads(ran.stdout), key=str) == expected
    right = engine().execute(f"SELECT v FROM iceberg_scan('{table.metadata_location}')").fetchall()
    assert sorted(right, key=str) == ([(None,), ([{"x": "v"}],)] if is_null else [([[{"y": "v"}]],)])


def in_nanoseconds(lake: IcebergLake, rule: ReaderRule) -> Table:
    """Make a table of one row of the rule's type: one of microseconds, whose file and metadata are written anew.

    PyIceberg reads the type, and writes no table of version 3.
    """
    kind, at = rule.feature.removeprefix("type "), pa.array([NS])
    before = made(lake, (Column("t", Scalar("timestamp" if kind == "timestamp_ns" else "timestamptz")),))
    (file,) = before.scan().plan_files()
    of_file = pa.field("t", pa.timestamp("ns", "UTC" if "tz" in kind else None), metadata={"PARQUET:field_id": "1"})
    rows = pa.Table.from_arrays([at.cast(of_file.type)], schema=pa.schema([of_file]))
    pq.write_table(rows, file.file.file_path.removeprefix("file://"), store_schema=False)
    newest = Path(before.metadata_location.removeprefix("file://"))
    metadata = json.loads(newest.read_text()) | {"format-version": 3, "next-row-id": 1}
    for each in metadata["snapshots"]:
        each |= {"first-row-id": 0, "added-rows": 1}
    for schema in metadata["schemas"]:
        schema["fields"][0]["type"] = kind
    changed = newest.with_name("00009-of-version-3.metadata.json")
    changed.write_text(json.dumps(metadata))
    return lake.catalog.register_table(f"{'.'.join(before.name())}_ns", f"file://{changed}")


@pytest.mark.parametrize("rule", NANOSECONDS, ids=lambda rule: f"{rule.reader}-{rule.feature}")
def test_an_engine_reads_nanoseconds_as_its_rule_says(rule: ReaderRule, lake: IcebergLake, spark: Procedures) -> None:
    table, kind = in_nanoseconds(lake, rule), rule.feature.removeprefix("type ")

    with nullcontext() if rule.verdict == "fine" else pytest.raises(Exception, match=f"type.*: {kind}"):
        assert read(rule.reader, table, spark) == ("t",)

    assert table.scan().to_arrow().column("t").cast(pa.int64()).to_pylist() == [NS]
    if (rule.reader, rule.verdict) == ("duckdb", "fine"):
        found = engine().execute(f"SELECT epoch_ns(t) FROM iceberg_scan('{table.metadata_location}')")
        assert found.fetchall() == [(NS,)], "DuckDB reads it"


def test_structs_that_the_rule_of_variants_leaves_out_are_read(lake: IcebergLake, spark: Procedures) -> None:
    (rule,) = (each for each in RULES if each.reader == "duckdb" and each.verdict == "warn")

    for column in rule.examples.not_of:
        assert isinstance(column, Column)
        assert read("duckdb", made(lake, (column,)), spark) == ("v",)
