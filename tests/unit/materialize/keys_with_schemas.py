"""A changelog whose keys have registered schemas, one of which gives a field of the key another name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from changelogs import Changelog
from whole_batches import framed

from tests.fakes.clients_in_memory import a_field, record


@dataclass
class KeysWithSchemas:
    """A changelog whose keys have registered schemas."""

    changelog: Changelog
    schemas: dict[int, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> KeysWithSchemas:
        """Rows of 1 (offset 2) and 3 (4), with a field of the key that has another name from 3 on."""
        made = cls(Changelog.at(folder, key="avro"))
        old = made.register(a_field("id"))
        for key, value in ((1, 1), (2, 2), (1, 3)):
            made.send(old, {"id": key}, value)
        made.changelog.catch_up()
        renamed = made.register({**a_field("number"), "aliases": ["id"]})
        for key, value in ((2, None), (3, 3)):
            made.send(renamed, {"number": key}, value)
        made.changelog.catch_up()
        return made

    def register(self, *fields: dict[str, object]) -> int:
        schema = record(*fields, name="Key")
        number = self.changelog.world.registry.register("orders-key", schema).id
        self.schemas[number] = schema
        return number

    def send(self, schema_id: int, key: dict[str, Any], value: int | None) -> None:
        world = self.changelog.world
        self.changelog.send(("replaced below", value))
        world.keys[len(world.values) - 1] = framed(schema_id, self.schemas[schema_id], key)
