"""PyIceberg's Glue catalog with quick commits."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import METADATA_LOCATION
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.table import Table

from frazil.adapters.iceberg_commits import QuickCommits


class QuickGlueCatalog(QuickCommits, GlueCatalog):
    def _convert_glue_to_iceberg(self, glue_table: Any) -> Table:
        location = glue_table.get("Parameters", {}).get(METADATA_LOCATION, "")
        metadata = self.remembered(location)
        if metadata is None:
            read = super()._convert_glue_to_iceberg(glue_table)
            self.remember(read.metadata_location, read.metadata)
            return read
        identifier = (glue_table["DatabaseName"], glue_table["Name"])
        return Table(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)
