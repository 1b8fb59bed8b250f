"""Schemas that records have in them, looked up as those of a registry are (`ports.SchemaRegistry`)."""

from __future__ import annotations

from typing import Protocol

from frazil.formats.open import embedded_schema, is_embedded
from frazil.model.schemas import RegisteredSchema, SchemaId
from frazil.ports import SchemaRegistry
from frazil.registry_front import RegistryFront


class _Opened(SchemaRegistry, Protocol):
    def close(self) -> None: ...


class WithEmbedded(RegistryFront[_Opened]):
    """A registry beside the embedded schemas that this process has met, which it is never asked for."""

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return embedded_schema(schema_id) if is_embedded(schema_id) else self.registry.by_id(schema_id)

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return not is_embedded(schema_id) and self.registry.remembers_missing(schema_id)

    def close(self) -> None:
        self.registry.close()
