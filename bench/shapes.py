"""Topics of other shapes than the benchmark's own: columns, bytes of a record, partitions, codec of the producer."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from bench import orders
from frazil.local.supervisor import LocalServices

Record = dict[str, object]
DISTINCT = 20_000
"""Records are drawn from so many different ones."""

DATA_BYTES = 240_000_000
"""A topic has at most so many bytes of values."""

STRING, LONG, DOUBLE = "string", "long", "double"


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic's records. Without `fields` they are the orders of the main comparison."""

    name: str
    fields: tuple[str, ...] = ()
    text_bytes: int = 12
    """The length of each string."""
    partitions: int = 6
    codec: str = "none"

    @property
    def topic(self) -> str:
        return "bench_shape_" + "".join(c if c.isalnum() else "_" for c in self.name)

    @property
    def schema(self) -> Record:
        if not self.fields:
            return orders.SCHEMA
        fields = [{"name": f"c{n}", "type": kind} for n, kind in enumerate(self.fields)]
        return {"type": "record", "name": "Shape", "namespace": "frazil.bench", "fields": fields}

    def record(self, number: int, rng: random.Random) -> Record:
        if not self.fields:
            return orders.order(number, rng)
        made: dict[str, Callable[[], object]] = {
            STRING: lambda: rng.randbytes(self.text_bytes).hex()[: self.text_bytes],
            LONG: lambda: rng.randrange(10_000_000),
            DOUBLE: rng.random,
        }
        return {f"c{n}": made[kind]() for n, kind in enumerate(self.fields)}


WARM_UP = Shape("warm-up")
SHAPES = (
    Shape("5 columns", (LONG, STRING, DOUBLE, STRING, LONG)),
    Shape("20 columns", (LONG, STRING, DOUBLE, STRING) * 5),
    Shape("100 columns", (LONG, STRING, DOUBLE, STRING) * 25),
    Shape("100 B", (LONG, STRING, DOUBLE, STRING, LONG), text_bytes=40),
    Shape("1 KB", (LONG, STRING, DOUBLE, STRING, LONG), text_bytes=490),
    Shape("10 KB", (LONG, STRING, DOUBLE, STRING, LONG), text_bytes=4_990),
    Shape("1 partition", partitions=1),
    Shape("6 partitions"),
    Shape("50 partitions", partitions=50),
    Shape("snappy", codec="snappy"),
    Shape("lz4", codec="lz4"),
    Shape("zstd", codec="zstd"),
)


def encoded(shape: Shape, schema_id: int) -> list[bytes]:
    """Return the different values of a topic, in the registry's wire format."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(shape.schema)))
    rng = random.Random(shape.name)
    first = next(_encoded(shape, parsed, schema_id, rng, 1))
    return list(_encoded(shape, parsed, schema_id, rng, min(DISTINCT, DATA_BYTES // 4 // len(first))))


def _encoded(shape: Shape, parsed: object, schema_id: int, rng: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        buffer = io.BytesIO(struct.pack(">bI", 0, schema_id))
        buffer.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(buffer, parsed, shape.record(number, rng))
        yield buffer.getvalue()


def fill(services: LocalServices, shape: Shape, rows: int) -> int:
    """Make the topic anew, and return how many records it has: `rows`, or fewer if they would be too many bytes."""
    schema = Schema(json.dumps(shape.schema), "AVRO")
    schema_id = SchemaRegistryClient({"url": services.schema_registry_url}).register_schema(
        f"{shape.topic}-value", schema
    )
    values = encoded(shape, schema_id)
    count = min(rows, DATA_BYTES // max(map(len, values)))
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    admin.create_topics([NewTopic(shape.topic, shape.partitions, 1)])[shape.topic].result(30)
    producer = Producer(
        {
            "bootstrap.servers": services.bootstrap_servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "compression.type": shape.codec,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    for number in range(count):
        key = b"customer-%d" % (number % 100_000)
        producer.produce(shape.topic, values[number % len(values)], key, number % shape.partitions)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    return count


def remove(services: LocalServices, shapes: tuple[Shape, ...]) -> None:
    """Delete the topics that exist, so that they can be made anew."""
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    existing = admin.list_topics(timeout=30).topics
    doomed = [shape.topic for shape in shapes if shape.topic in existing]
    for future in admin.delete_topics(doomed).values() if doomed else ():
        future.result(60)
