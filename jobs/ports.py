"""The doors to the outside world: what the steps need of it, as Protocols. `adapters/` opens them."""

from __future__ import annotations

from typing import Protocol

from jobs.model.schemas import RegisteredSchema


class SchemaRegistry(Protocol):
    """A Confluent-compatible schema registry. Ids are resolved once a process."""

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema, or None where the registry answers that there is none (remembered for a minute).

        Raises RegistryError where it does not answer: never to be taken for None.
        """
        ...

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject, or None where the registry answers that there is no such subject."""
        ...
