"""What a chunk of records takes in memory."""

from __future__ import annotations

from itertools import chain

import pytest
from confluent_kafka import Message

from frazil.adapters.kafka import message_consumer
from frazil.adapters.kafka.message_consumer import TWICE_BYTES
from frazil.adapters.kafka.reader import KafkaReader
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields


class Consumer:
    """Hands out all messages at once."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def assign(self, partitions: object) -> None: ...

    def unassign(self) -> None: ...

    def incremental_unassign(self, partitions: object) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Message]:
        del count, timeout
        return list(self._messages)


@pytest.mark.parametrize(("size", "held"), [(TWICE_BYTES // 10, False), (100, True)])
def test_large_values_are_not_held_by_the_messages_as_well(
    size: int, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [Message("orders", 0, n, b"key", b"v" * size, [("trace", b"1")]) for n in range(10)]
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: Consumer(messages))
    ten = OffsetRange("orders", 0, 0, 10, 10, max_bytes=1 << 30)

    plain = OptionalFields(timestamp_type=False, leader_epoch=False)
    (records,) = chain.from_iterable(KafkaReader({}, engine="python").read([ten], plain))

    assert [len(each) for each in records.values.to_pylist()] == [size] * 10
    assert [message.value() is not None for message in messages] == [held] * 10
    assert records.headers[3] == [("trace", b"1")]
