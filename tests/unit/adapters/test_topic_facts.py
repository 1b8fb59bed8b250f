"""The partitions of a topic and their offsets are of one moment, though the broker is asked several times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from frazil.adapters.kafka import topics
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.model.errors import BrokerError


def answer(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


@dataclass
class Admin:
    """An admin client of a topic, which has another id or number of partitions each time that it is described."""

    described: Iterator[tuple[str, int] | None]
    asked: list[list[int]] = field(default_factory=list)

    def describe_topics(self, asked: TopicCollection, **_: object) -> Mapping[str, Future[Any]]:
        found = next(self.described)
        if found is None:
            return {"orders": answer(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))}
        topic_id, partitions = found
        numbered = [SimpleNamespace(id=number) for number in range(partitions)]
        return {"orders": answer(SimpleNamespace(topic_id=topic_id, partitions=numbered))}

    def list_offsets(self, asked: Mapping[TopicPartition, object], **_: object) -> Mapping[TopicPartition, Future[Any]]:
        self.asked.append([where.partition for where in asked])
        return {where: answer(SimpleNamespace(offset=7, leader_epoch=0)) for where in asked}

    def poll(self, timeout: float) -> int:
        return 0


def client(monkeypatch: pytest.MonkeyPatch, described: Iterator[tuple[str, int] | None]) -> KafkaTopics:
    monkeypatch.setattr(topics, "_admin", lambda settings: Admin(described))
    return KafkaTopics({"bootstrap.servers": "broker:9092"})


@pytest.mark.parametrize("later", [("one", 2), ("other", 1)], ids=["a partition is added", "the topic is made again"])
def test_a_topic_that_changes_while_its_ends_are_asked_for_is_listed_again(
    monkeypatch: pytest.MonkeyPatch, later: tuple[str, int]
) -> None:
    facts = client(monkeypatch, iter([("one", 1), later, later])).describe("orders")

    assert facts is not None
    assert (facts.topic_id, len(facts.partitions)) == later


def test_a_topic_that_is_deleted_meanwhile_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch, iter([("one", 1), None])).describe("orders") is None


def test_a_topic_whose_partitions_always_change_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    always = (("one", number) for number in count(1))

    with pytest.raises(BrokerError, match="changed 5 times while their offsets were asked for"):
        client(monkeypatch, always).describe("orders")
