"""The schemas of keys that the key column of a table can hold.

A table that reads keys since a change of its spec has never had the schemas of earlier keys. A record with such a key
cannot become a row by the present spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from frazil.formats.arrow import fit
from frazil.formats.open import open_decoder
from frazil.formats.placement import homeless, place_by_name
from frazil.materialize.ingest.keys import former_key_names, key_schema
from frazil.materialize.layout import reads_keys_by_schema
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import TableSpec


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The key column of a table. Where keys are `stored`, it has a place for each of their fields."""

    spec: TableSpec
    field: pa.Field
    former_names: Mapping[str, tuple[str, ...]]
    stored: bool

    @staticmethod
    def of(
        spec: TableSpec, row_schema: pa.Schema, former_names: Mapping[str, tuple[str, ...]], *, stored: bool
    ) -> KeyColumn | None:
        """Return the column; None if the table has none, or keys without schemas."""
        name = f"{spec.metadata.prefix}key"
        if not reads_keys_by_schema(spec) or "key" not in spec.metadata.keep or name not in row_schema.names:
            return None
        field = row_schema.field(name)
        return KeyColumn(spec, field, former_key_names(former_names, field), stored)

    def holds(self, schema: RegisteredSchema) -> bool:
        given = open_decoder(schema, self.spec.key_settings, self.spec.wire_format).schema
        target = key_schema(self.field)
        sources = place_by_name(given, target, self.former_names)
        if self.stored and homeless(given, target, sources):
            return False
        try:
            fit(pa.RecordBatch.from_pylist([], schema=given), target, sources)
        except IncompatibleSchemaError:
            return False
        return True
