"""The schemas that the columns of a rebuild are made from: those that its table holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.state import Standing
from frazil.model.schemas import ExcludedSchemas, RegisteredSchema, SchemaDefinition, SchemaId, in_order
from frazil.ports import SchemaRegistry


@dataclass(frozen=True, slots=True)
class HeldSchemas:
    """A registry (`ports.SchemaRegistry`), in which a newest schema that is excluded from the table is not the newest.

    Its records are dead letters. The last schema that the table has met takes its place; with none, it stays.
    """

    registry: SchemaRegistry
    excluded: ExcludedSchemas
    values: tuple[SchemaId, ...]
    keys: tuple[SchemaId, ...]

    @staticmethod
    def of(registry: SchemaRegistry, table: Standing) -> HeldSchemas:
        excluded, state = excluded_schemas(table.view.properties), table.state
        values = (each for each in state.schema_ids if each not in excluded.values)
        keys = (each for each in state.key_schema_ids if each not in excluded.keys)
        return HeldSchemas(registry, excluded, in_order(values), in_order(keys))

    def latest(self, subject: str) -> RegisteredSchema | None:
        newest = self.registry.latest(subject)
        if newest is None:
            return None
        names = {newest.id, newest.guid}
        held = (
            *(self.values if names & self.excluded.values else ()),
            *(self.keys if names & self.excluded.keys else ()),
        )
        return (self.registry.by_id(held[-1]) if held else None) or newest

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return self.registry.by_id(schema_id)

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return self.registry.remembers_missing(schema_id)

    def version(self, subject: str, number: int) -> RegisteredSchema:
        return self.registry.version(subject, number)

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        return self.registry.resolve(definition)

    def subjects_under(self, prefix: str) -> Collection[str]:
        return self.registry.subjects_under(prefix)
