"""The schemas of one topic's records while they change: wider ones, and ones that the registry does not have yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whole_batches import framed

from frazil.model.schemas import RegisteredSchema
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record

_UNKNOWN = 900
"""No registered schema of a test has as great an id."""


@dataclass
class WriterSchemas:
    """Encodes records with `id` and `n`, both nullable, and with a further column for each time it became wider."""

    registry: RegistryInMemory
    wider: int = 0
    unknown: int = 0
    """How many schemas are known by now that were not at first."""
    sent: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    """What each payload holds."""

    def __post_init__(self) -> None:
        self.registry.register("orders-value", _schema(0))

    def widen(self) -> None:
        self.wider += 1
        self.registry.register("orders-value", _schema(self.wider))

    def payload(self, value: Mapping[str, object]) -> bytes:
        more = {f"more_{n}": f"{n} of {self.wider}" for n in range(self.wider)}
        return self._framed(self.registry.subjects["orders-value"], _schema(self.wider), {**value, **more})

    def late_payload(self, value: Mapping[str, object]) -> bytes:
        """Encode with a schema that the registry does not have before `register_late`."""
        return self._framed(_UNKNOWN + self.unknown, self._late, value)

    def register_late(self) -> None:
        found = RegisteredSchema(_UNKNOWN + self.unknown, "AVRO", self._late)
        self.registry.schemas[found.id] = found
        self.registry.missing.clear()
        self.unknown += 1

    @property
    def _late(self) -> str:
        return _schema(0, name=f"Late{self.unknown}")

    def _framed(self, schema_id: int, schema: str, value: Mapping[str, object]) -> bytes:
        fields = {"id": None, "n": None, **value}
        payload = framed(schema_id, schema, fields)
        self.sent[payload] = fields
        return payload


def _schema(wider: int, *, name: str = "Order") -> str:
    more = (a_field(f"more_{n}", ["null", "string"]) for n in range(wider))
    number = a_field("n", ["null", "long" if wider else "int"])
    return record(a_field("id", ["null", "string"]), number, *more, name=name)
