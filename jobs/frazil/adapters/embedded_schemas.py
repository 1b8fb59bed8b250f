"""Schemas that records have in them, looked up as those of a registry are (`ports.SchemaRegistry`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from frazil.formats.open import embedded_schema, is_embedded
from frazil.model.schemas import RegisteredSchema, SchemaDefinition, SchemaId
from frazil.ports import SchemaRegistry


class _Opened(SchemaRegistry, Protocol):
    def close(self) -> None: ...


class WithEmbedded:
    """A registry beside the embedded schemas that this process has met, which it is never asked for."""

    def __init__(self, registry: _Opened) -> None:
        self.registry = registry

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return embedded_schema(schema_id) if is_embedded(schema_id) else self.registry.by_id(schema_id)

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return not is_embedded(schema_id) and self.registry.remembers_missing(schema_id)

    def latest(self, subject: str) -> RegisteredSchema | None:
        return self.registry.latest(subject)

    def version(self, subject: str, number: int) -> RegisteredSchema:
        return self.registry.version(subject, number)

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        return self.registry.resolve(definition)

    def subjects_under(self, prefix: str) -> Collection[str]:
        return self.registry.subjects_under(prefix)

    def close(self) -> None:
        self.registry.close()
