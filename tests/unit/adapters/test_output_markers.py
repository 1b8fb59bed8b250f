"""The markers of output topics are read from a group that may have no coordinator yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from frazil.adapters.kafka import coordinator, output_topics
from frazil.adapters.kafka.errors import ear
from frazil.adapters.kafka.output_topics import KafkaOutputTopics
from frazil.model.errors import BrokerError
from frazil.model.outputs import ShardPlace

PLACES = [ShardPlace("0b9c", "clean", "clean", 0)]


class Group:
    """A consumer whose group gets a coordinator after some answers."""

    def __init__(self, *codes: int) -> None:
        self.codes = [*codes]

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        del timeout
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return wanted

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "PAUSE_SECONDS", 0.0)


def test_markers_of_a_new_cluster_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    monkeypatch.setattr(output_topics, "_consumer", lambda *_: group)

    assert KafkaOutputTopics({}).markers(PLACES) == [None]
    assert group.codes == []


@pytest.mark.parametrize("codes", [[KafkaError.GROUP_AUTHORIZATION_FAILED], [KafkaError.NOT_COORDINATOR] * 6])
def test_other_answers_and_the_last_attempt_are_final(monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> None:
    group = Group(*codes)
    monkeypatch.setattr(output_topics, "_consumer", lambda *_: group)

    with pytest.raises(BrokerError, match="read the markers of the group"):
        KafkaOutputTopics({}).markers(PLACES)
    assert group.codes == []


def test_an_open_transaction_is_told_from_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {"read_committed": Group(KafkaError._TIMED_OUT), "read_uncommitted": Group()}
    monkeypatch.setattr(output_topics, "_consumer", lambda *asked: waiting[asked[-1]])
    assert KafkaOutputTopics({}).markers(PLACES) is None

    down = {name: Group(KafkaError._TIMED_OUT) for name in waiting}
    monkeypatch.setattr(output_topics, "_consumer", lambda *asked: down[asked[-1]])
    with pytest.raises(BrokerError, match="read the markers of the group"):
        KafkaOutputTopics({}).markers(PLACES)


def test_a_compacted_topic_that_refuses_a_record_without_a_key_is_named() -> None:
    failure = output_topics._failure("commit", KafkaError(KafkaError.INVALID_RECORD), ear(), "orders.out")

    assert isinstance(failure, BrokerError)
    assert "orders.out is compacted" in str(failure.hint)
