"""The smallest valid configuration, and secrets from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from frazil.model.spec import Settings

KAFKA = "kafka: {bootstrap.servers: localhost:9092}"
REGISTRY = "schema_registry: {url: http://localhost:8081}"
GOOD = f"{KAFKA}\n{REGISTRY}\n"


@dataclass
class SecretsInMemory:
    """A double of AWS Secrets Manager."""

    known: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str) -> str | None:
        return self.known.get(name)


Load = Callable[..., Settings]
