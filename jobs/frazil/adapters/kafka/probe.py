"""Try Kafka step by step as a reader does: does the cluster accept our credentials, and may we read a topic?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from frazil.adapters.kafka.errors import REFUSALS, ear, hint_of, said
from frazil.adapters.kafka.topics import consumer_settings
from frazil.model.errors import BrokerError, SettingError
from frazil.model.secret import SettingValue

LOOK_SECONDS = 0.2
NOT_KAFKA = "check that this is a Kafka client port, and that security.protocol matches it"
QUIET: Mapping[str, object] = {"reconnect.backoff.max.ms": 1000}


class KafkaProbe:
    """One consumer, made as those of the ingest tasks are. Close it."""

    def __init__(self, settings: Mapping[str, SettingValue], *, seconds: float) -> None:
        self._seconds = seconds
        self._heard = ear()
        made = {**consumer_settings(settings), **QUIET, "error_cb": self._heard.append}
        try:
            self._consumer = Consumer(cast("dict[str, Any]", made))
        except KafkaException as refused:
            raise SettingError(
                f"the `kafka` settings cannot be used: {refused.args[0]}",
                hint="fix `kafka` in frazil.yaml; file paths are relative to its folder",
            ) from refused

    def brokers(self, topic: str) -> tuple[str, ...]:
        """Return the brokers' addresses in the cluster's metadata, as `host:port`. Raises BrokerError."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                metadata = self._consumer.list_topics(topic, timeout=max(min(1.0, deadline - time.monotonic()), 0.1))
                return tuple(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
            except KafkaException as failure:
                self._consumer.poll(0)
                if time.monotonic() > deadline or any(error.code() in REFUSALS for error in self._heard):
                    raise self._failed(failure) from failure

    def read(self, topic: str, partition: int) -> str:
        """Fetch at the end of a partition, where there is nothing to carry over. Raises BrokerError."""
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_END)])
        deadline = time.monotonic() + self._seconds
        try:
            while time.monotonic() < deadline:
                for message in self._consumer.consume(1, LOOK_SECONDS):
                    return _read(message, topic, partition)
        finally:
            self._consumer.unassign()
        raise BrokerError(
            f"no answer from {topic}-{partition} within {self._seconds:g} s{said(self._heard)}",
            hint="check that this machine can reach the broker that leads the partition",
        )

    def close(self) -> None:
        self._consumer.close()

    def _failed(self, failure: KafkaException) -> BrokerError:
        return BrokerError(
            f"the cluster does not answer: {failure.args[0].str()}{said(self._heard)}",
            hint=hint_of(self._heard, otherwise=NOT_KAFKA),
        )


def _read(message: Message, topic: str, partition: int) -> str:
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return f"partition {partition} is readable at offset {message.offset()}"
    raise BrokerError(
        f"{topic}-{partition} cannot be read: {error.str()}",
        hint=hint_of([error], otherwise=f"grant READ on the topic {topic} to the `kafka` user", topic=topic),
    )
