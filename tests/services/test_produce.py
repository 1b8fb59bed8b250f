from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from frazil.local.produce import produce
from frazil.local.stock_trades import encoded_trades
from frazil.local.supervisor import LocalServices
from frazil.model.errors import BrokerError, SettingError

PARTITIONS = 3


def unused() -> str:
    return f"trades-{uuid.uuid4().hex[:8]}"


def read_all(services: LocalServices, topic: str) -> list[tuple[bytes, bytes]]:
    """Key and value of every record, by a reader that knows how many the partitions hold."""
    consumer = Consumer({"bootstrap.servers": services.bootstrap_servers, "group.id": topic})
    parts = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    rows = sum(consumer.get_watermark_offsets(part)[1] for part in parts)
    consumer.assign(parts)
    records = consumer.consume(rows, timeout=30)
    consumer.close()
    return [(record.key(), record.value()) for record in records]


def test_what_is_produced_is_what_the_seed_decides_and_is_counted(services: LocalServices) -> None:
    topic = unused()

    produced = produce(rows=1_000, services=services, topic=topic, partitions=PARTITIONS, seed=5)

    prefix = b"\x00" + produced.schema_id.to_bytes(4)
    expected = [(key, prefix + body) for key, body in encoded_trades(1_000, seed=5)]
    assert (produced.topic, produced.rows) == (topic, 1_000)
    assert sorted(read_all(services, topic)) == sorted(expected)


def test_producing_again_appends_under_the_same_schema(services: LocalServices) -> None:
    topic = unused()

    first = produce(rows=10, services=services, topic=topic, partitions=PARTITIONS)
    second = produce(rows=10, services=services, topic=topic, partitions=PARTITIONS)

    assert first.schema_id == second.schema_id
    assert len(read_all(services, topic)) == 20


def test_a_rate_bounds_how_fast_records_come(services: LocalServices) -> None:
    began = time.monotonic()

    produce(rows=50, rate=100, services=services, topic=unused(), partitions=PARTITIONS)

    assert time.monotonic() - began >= 0.5


def test_a_refused_topic_is_a_broker_error(services: LocalServices) -> None:
    with pytest.raises(BrokerError, match=r"Producing into topic not/a/name .* failed: expected a topic"):
        produce(rows=1, services=services, topic="not/a/name")


def test_an_unknown_sample_is_refused(services: LocalServices) -> None:
    with pytest.raises(SettingError, match="Unknown sample weather"):
        produce("weather", rows=1, services=services)
