"""Sales events of several channels, with what is wrong in such topics, and the truth about them.

Of 100 records about 86 are new events, 8 an event sent again, 4 a new event that comes late, and 2 are no events.
"""

from __future__ import annotations

import io
import json
import random
import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import fastavro

SCHEMA_FILE = Path(__file__).parent / "sales_event.avsc"
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
"""The time of the first event: a Monday."""

STEP = timedelta(seconds=7)
LATEST = timedelta(days=10)
REPEATABLE = 1_000
"""How many events back a channel repeats one."""

CHANNELS = ("web", "store", "marketplace", "phone")
COUNTRIES = ("AT", "DE", "FR", "IN", "JP", "US")
CURRENCIES = {"AT": "EUR", "DE": "EUR", "FR": "EUR", "IN": "INR", "JP": "JPY", "US": "USD"}
PRODUCTS = (
    ("KET-01", "Kettle", "kitchen", Decimal("34.90")),
    ("MUG-12", "Mug, =large", "kitchen", Decimal("8.50")),
    ("LAM-07", "Lamp", "living", Decimal("59.00")),
    ("RUG-33", "Rug", "living", Decimal("120.00")),
    ("TEN-02", "Tent", "outdoor", Decimal("219.99")),
    ("BOO-40", "Boots", "outdoor", Decimal("89.95")),
)
NAMES = ("Anna", "Ben", "Chidi", "Dora", "Emi", "Farid", "Greta", "Håkan")
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """One record of the topic: an event as the channel sent it, or bytes that are none."""

    kind: Literal["new", "late", "again", "malformed"]
    event: Event | None
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a table of the events must have: each event once, by its id. The others are counts of records."""

    events: Mapping[str, Event]
    again: int
    late: int
    malformed: int


def schema_text() -> str:
    return SCHEMA_FILE.read_text(encoding="utf-8")


def sent(rows: int, *, seed: int) -> Iterator[Sent]:
    """Yield the records. The same seed gives the same ones, and more rows continue them."""
    draw = random.Random(seed)  # noqa: S311 - sample data, not secrets
    kept: list[Event] = []
    for number in range(rows):
        chance = draw.random()
        if chance < 0.02:
            yield Sent("malformed", None, _malformed(draw))
        elif chance < 0.10 and kept:
            yield Sent("again", draw.choice(kept))
        else:
            is_late = chance < 0.14
            event = _event(draw, number, is_late=is_late)
            kept = [*kept[-REPEATABLE:], event] if len(kept) > 2 * REPEATABLE else [*kept, event]
            yield Sent("late" if is_late else "new", event)


def truth(rows: int, *, seed: int) -> Truth:
    """Return what the records of `sent` with the same arguments come to."""
    events: dict[str, Event] = {}
    counts = dict.fromkeys(("new", "late", "again", "malformed"), 0)
    for each in sent(rows, seed=seed):
        counts[each.kind] += 1
        if each.event is not None:
            events.setdefault(each.event["event_id"], each.event)
    return Truth(events, counts["again"], counts["late"], counts["malformed"])


def records(rows: int, *, seed: int, schema_id: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the value of each record, in Confluent's wire format. The key is the id of the order."""
    schema = fastavro.parse_schema(json.loads(schema_text()))
    frame = struct.pack(">bI", 0, schema_id)
    for each in sent(rows, seed=seed):
        if each.event is None:
            yield b"unknown", each.raw if each.raw[:1] != b"\0" else frame + each.raw[1:]
            continue
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, each.event)
        yield str(each.event["order"]["order_id"]).encode(), frame + buffer.getvalue()


def _event(draw: random.Random, number: int, *, is_late: bool) -> Event:
    country, name = draw.choice(COUNTRIES), draw.choice(NAMES)
    sku, product, category, price = draw.choice(PRODUCTS)
    customer = draw.randrange(1, 500)
    late_by = timedelta(seconds=draw.randrange(3_600, int(LATEST.total_seconds()))) if is_late else timedelta()
    return {
        "event_id": str(uuid.UUID(int=draw.getrandbits(128), version=4)),
        "event_time": BEGIN + number * STEP - late_by,
        "channel": draw.choice(CHANNELS),
        "product": {"sku": sku, "name": product, "category": category, "price": price},
        "order": {"order_id": 10_000 + number, "quantity": draw.randrange(1, 5), "currency": CURRENCIES[country]},
        "customer": {
            "customer_id": customer,
            "name": f"{name} {customer}",
            "email": f"{name.lower()}.{customer}@example.com",
            "phone": None if draw.random() < 0.3 else f"+99 555 {draw.randrange(10_000, 99_999)}",
            "country": country,
        },
    }


def _malformed(draw: random.Random) -> bytes:
    """Text of another program, or bytes behind a valid header that are no event."""
    if draw.random() < 0.5:
        return f"sale;{draw.randrange(1_000)};not avro".encode()
    return b"\0" + b"\x02" + draw.randbytes(draw.randrange(0, 6))
