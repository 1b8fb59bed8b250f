"""Topics of a real broker for tests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

SECONDS = 30.0


def make_topic(admin: AdminClient, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create a topic and wait until the broker describes it: the controller answers a moment earlier.

    It keeps records of any timestamp: the broker looks every 5 minutes, and deleted those of 1970 in the middle of a
    test.
    """
    admin.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1", **config})])[name].result(SECONDS)
    deadline = time.monotonic() + SECONDS
    while not _is_described(admin, name):
        assert time.monotonic() < deadline, f"the broker does not describe {name} {SECONDS:.0f} s after it was created"
        time.sleep(0.05)


def committed(bootstrap_servers: str, topic: str) -> Iterator[Message]:
    """Yield the records of committed transactions, one partition after the other."""
    settings = {"group.id": "reads", "isolation.level": "read_committed", "log_level": 0}
    settings |= {"enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})  # type: ignore[dict-item]
    for partition in consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (record := consumer.poll(SECONDS)) is None or record.error() is None:
            assert record is not None, f"{topic}-{partition} does not answer"
            yield record
    consumer.close()


def _is_described(admin: AdminClient, name: str) -> bool:
    try:
        return admin.list_topics(name, timeout=SECONDS).topics[name].error is None
    except KafkaException:
        return False
