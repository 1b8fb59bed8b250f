"""The example of sales channels beside the shipped specs: its keys, its records, and what must come of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deployed import Deployed

from frazil.local.produce import produce
from frazil.local.sales_channel import truth
from tests.made_topics import committed
from tests.sales_example import HASH_KEY, Row, clean_events, flat_rows

EXAMPLE = "examples/sales_channel"
SALES, FLAT, CLEAN, WEEKLY = "sales_channel", "sales", "sales_channel.clean", "sales_weekly"
ROWS, SEED = 400, 4
KEYS_SECRET = "acme/masks"
KEYS = {
    "hash_key": base64.b64encode(HASH_KEY).decode(),
    "dead_letter_key": base64.b64encode(b"letters" * 4 + b"keys").decode(),
}
KEYS_IN_ENVIRONMENT = f"""
policies:
  hash_key: {{id: "2026", secret: {KEYS_SECRET}}}
  dead_letter_key: {{id: "2026", secret: {KEYS_SECRET}}}
"""
TRUTH = truth(ROWS, seed=SEED)
EVENTS = clean_events(TRUTH)
FLAT_ROWS = flat_rows(EVENTS)


def make_keys(deployed: Deployed) -> None:
    """Make the secret that docs/policies.md wants before the first `create`."""
    deployed.client("secretsmanager").create_secret(Name=KEYS_SECRET, SecretString=json.dumps(KEYS))


def send_sales(deployed: Deployed) -> None:
    produce(SALES, ROWS, services=deployed.services, seed=SEED)


def sent_to(deployed: Deployed, topic: str) -> Iterator[tuple[Any, Row]]:
    """Yield the decoded key and value of each committed record; a key that is text stays text."""
    with SchemaRegistryClient({"url": deployed.services.schema_registry_url}) as registry:
        decode = AvroDeserializer(registry)
        for record in committed(deployed.services.bootstrap_servers, topic):
            key, value = bytes(record.key() or b""), bytes(record.value() or b"")
            is_avro = key.startswith(b"\0")
            yield (
                decode(key, SerializationContext(topic, MessageField.KEY)) if is_avro else key.decode(),
                decode(value, SerializationContext(topic, MessageField.VALUE)),
            )


def by_id(rows: Iterator[Row]) -> Mapping[str, Row]:
    """Return rows by the id of their event, of which there is one each."""
    found = list(rows)
    named = {row["event_id"]: row for row in found}
    assert len(named) == len(found), "an event is there twice"
    return named
