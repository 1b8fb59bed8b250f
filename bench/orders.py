"""The benchmark's records: 20 columns, about 200 bytes of Avro each."""

from __future__ import annotations

import io
import json
import multiprocessing
import random
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.local.supervisor import LocalServices
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields

TOPIC = "bench_orders"
PARTITIONS = 6
_NULLABLE = {"default": None}


def _optional(name: str, avro_type: object) -> dict[str, object]:
    return {"name": name, "type": ["null", avro_type], **_NULLABLE}


_MICROS = {"type": "long", "logicalType": "timestamp-micros"}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "frazil.bench",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer_id", "type": "long"},
        {"name": "sku", "type": "string"},
        _optional("status", "string"),
        {"name": "qty", "type": "int"},
        {"name": "price", "type": "double"},
        _optional("discount", "double"),
        {"name": "currency", "type": "string"},
        {"name": "country", "type": "string"},
        _optional("city", "string"),
        {"name": "created_at", "type": _MICROS},
        _optional("updated_at", _MICROS),
        {"name": "is_gift", "type": "boolean"},
        _optional("is_paid", "boolean"),
        {"name": "channel", "type": "string"},
        _optional("campaign", "string"),
        _optional("email", "string"),
        {"name": "session_id", "type": "string"},
        _optional("score", "float"),
        _optional("note", "string"),
    ],
}
_CITIES = ("Lisboa", "Berlin", "Paris", "London", "New York", "Mumbai", None)
_BEGAN = 1_790_000_000_000_000


def order(number: int, rng: random.Random) -> dict[str, object]:
    created = _BEGAN + number * 37
    return {
        "order_id": number,
        "customer_id": rng.randrange(10_000_000),
        "sku": f"SKU-{rng.randrange(2_000_000):07d}",
        "status": rng.choice(("NEW", "PAID", "SHIPPED", "DONE", None)),
        "qty": rng.randrange(1, 20),
        "price": round(rng.random() * 1000, 2),
        "discount": None if rng.random() < 0.5 else round(rng.random(), 2),
        "currency": rng.choice(("USD", "EUR", "GBP", "BRL")),
        "country": rng.choice(("US", "BR", "DE", "FR", "GB", "IN")),
        "city": rng.choice(_CITIES),
        "created_at": created,
        "updated_at": created + rng.randrange(10**9),
        "is_gift": rng.random() < 0.1,
        "is_paid": rng.random() < 0.8,
        "channel": rng.choice(("web", "ios", "android", "store")),
        "campaign": None if rng.random() < 0.5 else f"campaign-{rng.randrange(500):05d}",
        "email": f"user{rng.randrange(10_000_000):08d}@example.com",
        "session_id": f"{rng.getrandbits(128):032x}",
        "score": rng.random(),
        "note": None if rng.random() < 0.3 else f"a note {rng.randrange(10**6)} on this order, please handle with care",
    }


def encoded(first: int, count: int, schema_id: int) -> Iterator[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    rng = random.Random(first)
    prefix = struct.pack(">bI", 0, schema_id)
    for number in range(first, first + count):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, order(number, rng))
        yield prefix + buffer.getvalue()


def marker(rows: int) -> Path:
    """Says that the topic holds so many records."""
    return Path(f".frazil/bench/filled-{rows}")


def fill(services: LocalServices, rows: int) -> int:
    """A topic that holds `rows` orders, spread evenly; nothing is done where it is full already. The schema's id."""
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    schema_id = registry.register_schema(f"{TOPIC}-value", Schema(json.dumps(SCHEMA), "AVRO"))
    if marker(rows).exists():
        return schema_id
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(30)
    shares = [(services.bootstrap_servers, p, rows, schema_id) for p in range(PARTITIONS)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_fill_partition, shares, chunksize=1)
    for other in marker(rows).parent.glob("filled-*"):
        other.unlink()
    marker(rows).touch()
    return schema_id


def read_through(services: LocalServices) -> None:
    """Read the topic once: whoever comes first would otherwise wait for the disk."""
    topics = KafkaTopics({"bootstrap.servers": services.bootstrap_servers})
    facts = topics.describe(TOPIC)
    reader = KafkaReader({"bootstrap.servers": services.bootstrap_servers})
    for number, partition in ({} if facts is None else facts.partitions).items():
        whole = OffsetRange(TOPIC, number, partition.earliest, partition.end, partition.end, 2**63)
        for chunks in reader.read([whole], OptionalFields(timestamp_type=False, leader_epoch=False)):
            deque(chunks, maxlen=0)


def _fill_partition(servers: str, partition: int, rows: int, schema_id: int) -> None:
    settings = {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "enable.idempotence": True}
    producer = Producer(settings)
    share = rows // PARTITIONS + (1 if partition < rows % PARTITIONS else 0)
    for number, value in enumerate(encoded(partition * (rows // PARTITIONS + 1), share, schema_id)):
        key = f"customer-{number % 100_000}".encode()
        while True:
            try:
                producer.produce(TOPIC, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
