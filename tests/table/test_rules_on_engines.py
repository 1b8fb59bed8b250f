"""The readers' rules, row by row, on the engines that run here: what is refused fails, and what is fine is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import CATALOG_NAME, IcebergLake
from frazil.adapters.iceberg.types import to_schema
from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.reader_rules import RULES, ReaderRule
from frazil.model.settings import CatalogSettings
from tests.fakes.duckdb_once import engine
from tests.faults.procedures import Procedures, procedures

CASES = (Column("total", Scalar("string")), Column("Total", Scalar("string")))
ON_ENGINES = [
    pytest.param(rule, columns, id=f"{rule.reader}-{rule.feature[:30]}-{n}")
    for rule in RULES
    if rule.tested == "on the engine"
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
}


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


def test_structs_that_the_rule_of_variants_leaves_out_are_read(lake: IcebergLake, spark: Procedures) -> None:
    (rule,) = (each for each in RULES if each.reader == "duckdb" and each.verdict == "warn")

    for column in rule.examples.not_of:
        assert isinstance(column, Column)
        assert read("duckdb", made(lake, (column,)), spark) == ("v",)
