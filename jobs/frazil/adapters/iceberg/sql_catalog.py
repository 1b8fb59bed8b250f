"""PyIceberg's SQL catalog with quick commits."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Table

from frazil.adapters.iceberg.commits import QuickCommits


class QuickSqlCatalog(QuickCommits, SqlCatalog):
    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        metadata = None if location is None else self.remembered(location)
        if location is None or metadata is None:
            read = super()._convert_orm_to_iceberg(orm_table)
            self.remember(read.metadata_location, read.metadata)
            return read
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)
