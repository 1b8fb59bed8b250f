"""The service accounts of Confluent Cloud: which keys they have, and how their secrets hold them.

A secret is JSON with two fields for each part of Confluent Cloud that its account's keys open: `kafka_api_key` and
`kafka_api_secret`, and the like. Secrets of others, for a Kafka of their own, hold the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from shared.naming import Account, resource_name

Part = Literal["kafka", "registry", "tableflow", "flink"]
"""What a key opens: each has keys of its own."""

PARTS: Mapping[Account, tuple[Part, ...]] = {
    "manager": ("kafka",),
    "producer": ("kafka", "registry"),
    "consumer": ("kafka", "registry"),
    "registry": ("registry",),
    "materializer": ("kafka", "registry"),
    "connector": (),
    "tableflow": ("tableflow",),
    "flink": ("flink",),
}
"""What each account has keys for. The connector acts as its account without a key."""

PURPOSES: Mapping[Account, str] = {
    "manager": "makes topics",
    "producer": "writes records and registers their schemas",
    "consumer": "reads records",
    "registry": "changes schemas and how they may change",
    "connector": "makes stock trades, as the connector's own account",
    "materializer": "reads records and schemas for the tables",
    "tableflow": "switches Tableflow on",
    "flink": "runs the statements of Flink",
}


def key_field(part: Part) -> str:
    """The field of a secret with the API key."""
    return f"{part}_api_key"


def secret_field(part: Part) -> str:
    """The field of a secret with the API key's secret."""
    return f"{part}_api_secret"


def key_name(environment: str, account: Account, part: Part) -> str:
    """Return a key's display name in Confluent Cloud, which also identifies orphans: `frazil-dev-producer-kafka`."""
    return resource_name(environment, f"{account}-{part}")
