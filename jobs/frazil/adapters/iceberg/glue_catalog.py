"""PyIceberg's Glue catalog with quick commits."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import METADATA_LOCATION
from pyiceberg.catalog.glue import GLUE_MAX_RETRIES, GlueCatalog
from pyiceberg.table import Table

from frazil.adapters.iceberg.commits import QuickCommits
from frazil.model.errors import SettingError


class QuickGlueCatalog(QuickCommits, GlueCatalog):
    def __init__(self, name: str, **properties: Any) -> None:
        """Convert `glue.max-retries` from text to the number that boto3 requires. Raises SettingError if it is none."""
        if GLUE_MAX_RETRIES in properties:
            properties[GLUE_MAX_RETRIES] = _count(properties[GLUE_MAX_RETRIES])
        super().__init__(name, **properties)

    def _convert_glue_to_iceberg(self, glue_table: Any) -> Table:
        location = glue_table.get("Parameters", {}).get(METADATA_LOCATION, "")
        metadata = self.remembered(location)
        if metadata is None:
            read = super()._convert_glue_to_iceberg(glue_table)
            self.remember(read.metadata_location, read.metadata)
            return read
        identifier = (glue_table["DatabaseName"], glue_table["Name"])
        return Table(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)


def _count(value: object) -> int:
    text = str(value)
    if not (text.isascii() and text.isdecimal()):
        raise SettingError(
            f"{GLUE_MAX_RETRIES}: expected a whole number of at least 0, found {text!r}",
            hint="correct it under `catalog` in frazil.yaml",
        )
    return int(text)
