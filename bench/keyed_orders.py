"""A changelog of the benchmark's orders: each order once, then batches that change orders at random.

The key is the order's number as text. An order is in the partition that its number gives, so the offset orders its
records. Within a batch no order changes twice, if a reader takes as many records of each partition.
"""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from bench.orders import SCHEMA, encoded
from frazil.local.supervisor import LocalServices

TOPIC = "bench_upserts"
PARTITIONS = 4
DISTINCT = 100_000
"""Records of a partition have so many different values, but for the order's number."""

_HEADER_BYTES = 5


@dataclass(frozen=True, slots=True)
class Changelog:
    """`stored` orders, then `batches` batches of changes to `batch` orders; both are multiples of `PARTITIONS`."""

    stored: int
    batch: int
    batches: int

    def __post_init__(self) -> None:
        if self.stored % PARTITIONS or self.batch % PARTITIONS or self.batch > self.stored:
            raise ValueError(f"{self.batch:,} of {self.stored:,} orders in {PARTITIONS} equal partitions")

    @property
    def records(self) -> int:
        return self.stored + self.batch * self.batches

    def numbers(self, partition: int) -> Iterator[int]:
        """Yield the order's number of each record of a partition."""
        orders = range(partition, self.stored, PARTITIONS)
        yield from orders
        rng = random.Random(partition)
        for _ in range(self.batches):
            yield from rng.sample(orders, self.batch // PARTITIONS)


def fill(services: LocalServices, changelog: Changelog) -> None:
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    schema_id = registry.register_schema(f"{TOPIC}-value", Schema(json.dumps(SCHEMA), "AVRO"))
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    shares = [(services.bootstrap_servers, changelog, partition, schema_id) for partition in range(PARTITIONS)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_fill_partition, shares, chunksize=1)


def _fill_partition(servers: str, changelog: Changelog, partition: int, schema_id: int) -> None:
    settings = {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "enable.idempotence": True}
    producer = Producer(settings)
    header, others = _parts(schema_id, partition)
    for sent, number in enumerate(changelog.numbers(partition)):
        value = header + zigzag(number) + others[sent % DISTINCT]
        while True:
            try:
                producer.produce(TOPIC, value, b"%d" % number, partition)
                break
            except BufferError:
                producer.poll(0.1)
        if sent % 1_000 == 0:
            producer.poll(0)
    producer.flush()


def _parts(schema_id: int, partition: int) -> tuple[bytes, list[bytes]]:
    """Return what comes before an order's number, its first field, and what may come after it."""
    first = 1 + partition * DISTINCT
    values = encoded(first, DISTINCT, schema_id)
    parts = [(value[:_HEADER_BYTES], value[_HEADER_BYTES + len(zigzag(n)) :]) for n, value in enumerate(values, first)]
    return parts[0][0], [rest for _, rest in parts]


def zigzag(number: int) -> bytes:
    """Return a number that is not negative as Avro writes a long."""
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
