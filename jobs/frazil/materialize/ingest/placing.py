"""The columns that the fields of each writer schema go to, found once per schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.formats.placement import ColumnSources, homeless, place_by_name
from frazil.materialize.schema.compare import refusal
from frazil.model.schemas import SchemaFinding, SchemaId

Place = Callable[[SchemaId | None, pa.Schema], ColumnSources]
"""From a schema's id, or None, and the columns that its decoder gives to the sources of the table's columns."""


@dataclass(slots=True)
class ByName:
    """Places fields by name and former name. Raises IncompatibleSchemaError for a field without a column."""

    table: str
    target: pa.Schema
    former_names: Mapping[str, tuple[str, ...]]
    of_key: bool = False
    found: dict[SchemaId | None, ColumnSources] = field(default_factory=dict)

    def __call__(self, schema_id: SchemaId | None, given: pa.Schema) -> ColumnSources:
        if schema_id not in self.found:
            self.found[schema_id] = self._placed(schema_id, given)
        return self.found[schema_id]

    def _placed(self, schema_id: SchemaId | None, given: pa.Schema) -> ColumnSources:
        sources = place_by_name(given, self.target, self.former_names)
        lost = homeless(given, self.target, sources)
        if lost:
            findings = tuple(SchemaFinding(path, "the table has no column for it") for path in lost)
            raise refusal(self.table, schema_id, findings, of_key=self.of_key)
        return sources


class ByNameIfThere(ByName):
    """Leaves out a field without a column: for keys that are judged and not stored."""

    def _placed(self, schema_id: SchemaId | None, given: pa.Schema) -> ColumnSources:
        del schema_id
        return place_by_name(given, self.target, self.former_names)


def nowhere(schema_id: SchemaId | None, given: pa.Schema) -> ColumnSources:
    """Place no column: for payloads that are judged and not stored."""
    del schema_id, given
    return {}
