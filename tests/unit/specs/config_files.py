"""The smallest valid configuration."""

from __future__ import annotations

from collections.abc import Callable

from frazil.model.settings import Settings

KAFKA = "kafka: {bootstrap.servers: localhost:9092}"
REGISTRY = "schema_registry: {url: http://localhost:8081}"
GOOD = f"{KAFKA}\n{REGISTRY}\n"


Load = Callable[..., Settings]
