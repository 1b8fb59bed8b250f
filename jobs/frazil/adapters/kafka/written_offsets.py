"""Count the records of a partition, committed or not, to explain offsets that have no row."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from frazil.adapters.kafka.topics import consumer_settings, librdkafka
from frazil.model.errors import BrokerError
from frazil.model.secret import SettingValue

ANSWER_SECONDS = 30.0
AT_ONCE = 10_000
HINT = "check the cluster and the ACLs (READ and DESCRIBE_CONFIGS on the topic), or leave out --against-kafka"


class WrittenOffsets:
    """Counts the records that a partition has, those of aborted transactions included. It is a context manager."""

    def __init__(self, settings: Mapping[str, SettingValue]) -> None:
        self._settings = settings
        uncommitted = {**consumer_settings(settings), "isolation.level": "read_uncommitted"}
        self._consumer = Consumer(cast("dict[str, Any]", uncommitted))
        self._compacts: dict[str, bool] = {}

    def __enter__(self) -> WrittenOffsets:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()

    def earliest(self, topic: str, partition: int) -> int:
        """Return the first offset that Kafka still has. Raises BrokerError."""
        try:
            low, _ = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_SECONDS)
        except KafkaException as problem:
            raise _failed(f"find the first offset of {topic}-{partition}", problem) from problem
        return int(low)

    def count(self, topic: str, partition: int, start: int, end: int) -> int:
        """Return how many records the offsets `[start, end)` have, committed or not. Raises BrokerError."""
        self._consumer.assign([TopicPartition(topic, partition, start)])
        found, position = 0, start
        try:
            while position < end:
                messages = self._consumer.consume(AT_ONCE, timeout=ANSWER_SECONDS)
                if not messages:
                    raise _failed(f"read {topic}-{partition} from offset {position}", TimeoutError())
                for message in messages:
                    error, offset = message.error(), int(message.offset() or 0)
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise _failed(f"read {topic}-{partition} from offset {position}", KafkaException(error))
                    found += error is None and offset < end
                    position = offset + (error is None)
                    if error is not None or position >= end:
                        return found
        except KafkaException as problem:
            raise _failed(f"read {topic}-{partition} from offset {position}", problem) from problem
        finally:
            self._consumer.unassign()
        return found

    def compacts(self, topic: str) -> bool:
        """Return whether compaction may remove records of the topic. Raises BrokerError."""
        if topic not in self._compacts:
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
            admin = AdminClient(cast("dict[str, Any]", {**librdkafka(self._settings), "log_level": 0}))
            try:
                (asked,) = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS).values()
                self._compacts[topic] = "compact" in str(asked.result(ANSWER_SECONDS)["cleanup.policy"].value)
            except (KafkaException, TimeoutError) as problem:
                raise _failed(f"describe the settings of {topic}", problem) from problem
        return self._compacts[topic]


def _failed(what: str, problem: Exception) -> BrokerError:
    said = problem.args[0].str() if problem.args and isinstance(problem.args[0], KafkaError) else "no answer"
    return BrokerError(f"the Kafka cluster could not {what}: {said}", hint=HINT)
