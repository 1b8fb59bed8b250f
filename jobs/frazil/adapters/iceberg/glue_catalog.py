"""PyIceberg's Glue catalog with quick commits, and with columns that Glue accepts.

Glue keeps a copy of a table's columns for those who look there; readers take them from the table's own metadata. It
refuses a table if the copy breaks one of its limits.
"""

from __future__ import annotations

import re
from typing import Any

from pyiceberg.catalog import METADATA_LOCATION
from pyiceberg.catalog.glue import GLUE_MAX_RETRIES, GlueCatalog
from pyiceberg.table import Table

from frazil.adapters.iceberg.commits import QuickCommits
from frazil.model.errors import SettingError

LONGEST_TEXT, LONGEST_TYPE = 255, 131_072
"""The limits of Glue's API for a column's name or comment, and for its type, in bytes of UTF-8."""
NOT_IN_A_LINE = re.compile(r"[^\t\u0020-\ufffd\U00010000-\U0010ffff]+")
"""Characters that Glue allows in no comment, such as the end of a line."""


class QuickGlueCatalog(QuickCommits, GlueCatalog):
    def __init__(self, name: str, **properties: Any) -> None:
        """Convert `glue.max-retries` from text to the number that boto3 requires. Raises SettingError if it is none."""
        if GLUE_MAX_RETRIES in properties:
            properties[GLUE_MAX_RETRIES] = _count(properties[GLUE_MAX_RETRIES])
        super().__init__(name, **properties)

    def _create_glue_table(self, database_name: str, table_name: str, table_input: Any) -> None:
        super()._create_glue_table(database_name, table_name, _accepted(table_input))

    def _update_glue_table(self, database_name: str, table_name: str, table_input: Any, version_id: str) -> None:
        super()._update_glue_table(database_name, table_name, _accepted(table_input), version_id)

    def _convert_glue_to_iceberg(self, glue_table: Any) -> Table:
        location = glue_table.get("Parameters", {}).get(METADATA_LOCATION, "")
        metadata = self.remembered(location)
        if metadata is None:
            read = super()._convert_glue_to_iceberg(glue_table)
            self.remember(read.metadata_location, read.metadata)
            return read
        identifier = (glue_table["DatabaseName"], glue_table["Name"])
        return Table(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)


def _accepted(table_input: Any) -> Any:
    """Return the table with the columns that Glue can have, and with comments of one line that it can have."""
    storage = table_input.get("StorageDescriptor", {})
    if "Columns" not in storage:
        return table_input
    columns = [_with_short_comment(each) for each in storage["Columns"] if _fits(each)]
    return {**table_input, "StorageDescriptor": {**storage, "Columns": columns}}


def _fits(column: Any) -> bool:
    return len(column["Name"].encode()) <= LONGEST_TEXT and len(column["Type"].encode()) <= LONGEST_TYPE


def _with_short_comment(column: Any) -> Any:
    if "Comment" not in column:
        return column
    line = NOT_IN_A_LINE.sub(" ", column["Comment"]).encode()
    return {**column, "Comment": line[:LONGEST_TEXT].decode(errors="ignore")}


def _count(value: object) -> int:
    text = str(value)
    if not (text.isascii() and text.isdecimal()):
        raise SettingError(
            f"{GLUE_MAX_RETRIES}: expected a whole number of at least 0, found {text!r}",
            hint="correct it under `catalog` in frazil.yaml",
        )
    return int(text)
