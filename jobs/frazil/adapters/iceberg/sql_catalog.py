"""PyIceberg's SQL catalog with quick commits and quick look-ups."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from sqlalchemy import Select, bindparam, select

from frazil.adapters.iceberg.commits import QuickCommits


class QuickSqlCatalog(QuickCommits, SqlCatalog):
    def load_table(self, identifier: str | Identifier) -> Table:
        """Read the table's row as the library does, with a statement that is made once.

        A batch looks at its table a dozen times. The metadata is remembered, so making the library's statement anew
        and its object of the row was two thirds of a look's CPU.
        """
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        name = Catalog.table_name_from(identifier)
        with self.engine.connect() as connection:
            row = connection.execute(self._table_row, {"namespace": namespace, "name": name}).first()
        if row is None:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        return self._convert_orm_to_iceberg(cast(IcebergTables, row))

    @cached_property
    def _table_row(self) -> Select[Any]:
        columns = IcebergTables.__table__.c
        wanted = select(columns.table_namespace, columns.table_name, columns.metadata_location).where(
            columns.catalog_name == self.name,
            columns.table_namespace == bindparam("namespace"),
            columns.table_name == bindparam("name"),
        )
        of_tables = self._iceberg_type_filter()
        return wanted if of_tables is None else wanted.where(of_tables)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        metadata = None if location is None else self.remembered(location)
        if location is None or metadata is None:
            read = super()._convert_orm_to_iceberg(orm_table)
            self.remember(read.metadata_location, read.metadata)
            return read
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)
