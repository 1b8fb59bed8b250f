"""The example of sales channels in a folder of a test's own, and what its tables and topics must have."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from frazil.local.sales_channel import Event, Truth
from frazil.local.supervisor import LocalServices
from frazil.model.settings import Settings
from frazil.specs.keys import NoSecrets
from frazil.specs.load import load_settings

SHIPPED = Path(__file__).parents[1] / "examples" / "sales_channel"
HASH_KEY = b"h" * 32
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SalesExample:
    """A copy of the example that reads and writes topics of its own."""

    folder: Path
    services: LocalServices
    topic: str

    @classmethod
    def copied(cls, folder: Path, services: LocalServices) -> SalesExample:
        topic = f"sales_{uuid.uuid4().hex[:10]}"
        shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns(".frazil", "*.key"))
        spec = folder / "tables" / "sales_channel.yaml"
        text = spec.read_text(encoding="utf-8").replace("topic: sales_channel", f"topic: {topic}")
        spec.write_text(f"{text}\ntable: sales_channel\n", encoding="utf-8")
        config = folder / "frazil.yaml"
        text = config.read_text(encoding="utf-8")
        for name, address in asdict(services).items():
            text = text.replace(f"${{local:{name}}}", str(address))
        config.write_text(text, encoding="utf-8")
        for name, key in {"hash.key": HASH_KEY, "letters.key": b"l" * 32}.items():
            (folder / name).write_bytes(base64.b64encode(key))
        return cls(folder, services, topic)

    @property
    def output_topic(self) -> str:
        return f"{self.topic}.clean"

    def settings(self) -> Settings:
        return load_settings(self.folder / "frazil.yaml", {}, NoSecrets())


def clean_events(truth: Truth) -> Mapping[str, Row]:
    """The rows of the table of events, by their id: personal data is masked."""
    return {key: {**event, "customer": _masked(event["customer"])} for key, event in truth.events.items()}


def _masked(customer: Event) -> Row:
    return {
        "customer_id": hashed(customer["customer_id"]),
        "name": "[redacted]",
        "phone": None if customer["phone"] is None else "[redacted]",
        "country": customer["country"],
    }


def hashed(number: int) -> str:
    return hmac.new(HASH_KEY, str(number).encode(), hashlib.sha256).hexdigest()[:32]


def flat_rows(events: Mapping[str, Row]) -> Mapping[str, Row]:
    """The rows of the transformation of these events, by their id."""
    return {key: _flat(event) for key, event in events.items()}


def _flat(event: Row) -> Row:
    product, order, customer = event["product"], event["order"], event["customer"]
    return {
        **{name: event[name] for name in ("event_id", "event_time", "channel")},
        "sku": product["sku"],
        "product": product["name"],
        "category": product["category"],
        "price": product["price"],
        **order,
        "total": product["price"] * order["quantity"],
        "customer": customer["customer_id"],
        "country": customer["country"],
    }
