"""Topics that are compacted within seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from breadth import WAIT_SECONDS, Place, admin_of
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1",
}


@contextmanager
def quick_cleaner(place: Place) -> Iterator[None]:
    """Let the broker look for something to compact ten times a second."""
    alter_config(place, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    try:
        yield
    finally:
        alter_config(place, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": None})


def alter_config(place: Place, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
    """Set values; None removes one."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin_of(place.services).incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)
