"""The SQL catalog finds the tables that PyIceberg's own finds, and no views and no tables of other catalogs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from frazil.adapters.iceberg.catalog_properties import catalog_properties
from frazil.adapters.iceberg.lake import CATALOG_NAME, IcebergLake
from frazil.adapters.storage.warehouse_folder import CATALOG_FILE
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings

IDENTIFIER = "lake.orders"


@pytest.fixture
def settings(tmp_path: Path) -> CatalogSettings:
    """A catalog with one table."""
    made = CatalogSettings("jdbc", str(tmp_path))
    IcebergLake(made).create(IDENTIFIER, (Column("n", Scalar("long")),), partition_by=(), properties={}, summary={})
    return made


def change(settings: CatalogSettings, statement: str) -> None:
    with sqlite3.connect(Path(settings.warehouse) / CATALOG_FILE) as connection:
        connection.execute(statement)
    connection.close()


def parts(table: Table) -> tuple[object, ...]:
    return (table.name(), table.metadata, table.metadata_location, table.io.properties, type(table.io))


@pytest.mark.parametrize("kind", ["'TABLE'", "NULL"])
def test_a_table_is_loaded_as_by_the_library(settings: CatalogSettings, kind: str) -> None:
    change(settings, f"UPDATE iceberg_tables SET iceberg_type = {kind}")
    catalog = IcebergLake(settings).catalog
    read, remembered = catalog.load_table(IDENTIFIER), catalog.load_table(("lake", "orders"))

    expected = SqlCatalog(CATALOG_NAME, **catalog_properties(settings)).load_table(IDENTIFIER)

    assert parts(read) == parts(remembered) == parts(expected)
    assert remembered.metadata is read.metadata
    assert remembered.catalog is catalog


def test_a_table_is_loaded_from_a_catalog_without_the_column_of_types(settings: CatalogSettings) -> None:
    change(settings, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")

    assert IcebergLake(settings).catalog.load_table(IDENTIFIER).name() == ("lake", "orders")


@pytest.mark.parametrize("column", ["catalog_name", "table_namespace", "table_name", "iceberg_type"])
def test_rows_of_views_and_of_other_tables_are_not_the_table(settings: CatalogSettings, column: str) -> None:
    change(settings, f"UPDATE iceberg_tables SET {column} = 'VIEW'")

    with pytest.raises(NoSuchTableError, match=r"lake\.orders"):
        IcebergLake(settings).catalog.load_table(IDENTIFIER)


def test_a_commit_of_another_process_is_seen_at_once(settings: CatalogSettings) -> None:
    lake, other = IcebergLake(settings), IcebergLake(settings)
    assert lake.load(IDENTIFIER) is not None
    other.set_properties(IDENTIFIER, put={"owner": "sales"})

    seen = lake.load(IDENTIFIER)

    assert seen is not None
    assert seen.properties["owner"] == "sales"


def test_a_row_without_metadata_is_no_table(settings: CatalogSettings) -> None:
    change(settings, "UPDATE iceberg_tables SET metadata_location = NULL")

    with pytest.raises(NoSuchTableError, match="metadata_location is missing"):
        IcebergLake(settings).catalog.load_table(IDENTIFIER)
