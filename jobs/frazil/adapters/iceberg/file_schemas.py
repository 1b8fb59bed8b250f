"""Whether the Iceberg library can read the columns of a Parquet file that another engine may have written."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table.name_mapping import NameMapping

from frazil.adapters.iceberg.undecodable import one_line


class FileSchemas:
    """The schemas of a table's files. Each distinct one is converted once: a table may have 100,000 files."""

    def __init__(self, mapping: NameMapping | None) -> None:
        self._mapping = mapping
        self._known: dict[bytes, str] = {}

    def unsupported(self, footer: pq.FileMetaData) -> str:
        """Return why the file's columns cannot be read as Iceberg columns, or an empty text.

        The library converts all columns of a file, also those that are not in the table.
        """
        try:
            schema: pa.Schema = footer.schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as problem:
            return one_line(problem)
        key = schema.serialize().to_pybytes()
        if key not in self._known:
            self._known[key] = self._convert(schema)
        return self._known[key]

    def _convert(self, schema: pa.Schema) -> str:
        try:
            pyarrow_to_schema(schema, self._mapping, downcast_ns_timestamp_to_us=True, format_version=2)
        except Exception as problem:  # noqa: BLE001 - the library raises ValueError, TypeError and classes of its own
            return one_line(problem)
        return ""
