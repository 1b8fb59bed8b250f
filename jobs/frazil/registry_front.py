"""What is in front of a schema registry (`ports.SchemaRegistry`), and answers some questions itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from frazil.model.schemas import RegisteredSchema, SchemaDefinition, SchemaId
from frazil.ports import SchemaRegistry

Behind = TypeVar("Behind", bound=SchemaRegistry)


class RegistryFront(Generic[Behind]):
    """Hands each question on to the registry behind."""

    def __init__(self, registry: Behind) -> None:
        self.registry = registry

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return self.registry.by_id(schema_id)

    def remembers_missing(self, schema_id: SchemaId) -> bool:
        return self.registry.remembers_missing(schema_id)

    def latest(self, subject: str) -> RegisteredSchema | None:
        return self.registry.latest(subject)

    def version(self, subject: str, number: int) -> RegisteredSchema:
        return self.registry.version(subject, number)

    def resolve(self, definition: SchemaDefinition) -> RegisteredSchema:
        return self.registry.resolve(definition)

    def subjects_under(self, prefix: str) -> Collection[str]:
        return self.registry.subjects_under(prefix)
