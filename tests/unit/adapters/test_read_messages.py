"""What a chunk of records takes in memory."""

from __future__ import annotations

import sys
from itertools import chain, islice

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from frazil.adapters.kafka import message_consumer
from frazil.adapters.kafka.reader import CHUNK_BYTES, KafkaReader
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields
from tests.headers import header_lists


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


def test_records_hold_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [Message("orders", 0, n, b"key", b"v" * 1_000, [("trace", b"1")]) for n in range(10)]
    before = [sys.getrefcount(message) for message in messages]
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: Consumer(messages))
    ten = OffsetRange("orders", 0, 0, 10, 10, max_bytes=1 << 30)

    plain = OptionalFields(timestamp_type=False, leader_epoch=False)
    (records,) = chain.from_iterable(KafkaReader({}, engine="python").read([ten], plain))

    assert [sys.getrefcount(message) for message in messages] == before
    assert [len(each) for each in records.values.to_pylist()] == [1_000] * 10
    assert header_lists(records.headers) == [[("trace", b"1")]] * 10


def test_headers_end_a_chunk_as_values_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are copied like values, so a chunk of small values with large headers is no larger."""
    header = b"x" * 100_000
    messages = [Message("orders", 0, n, b"key", b"v", [("trace", header)]) for n in range(1_000)]
    left = iter(messages)
    consumer = Consumer(messages)
    monkeypatch.setattr(consumer, "consume", lambda count, timeout: list(islice(left, count)))
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: consumer)
    all_of_it = OffsetRange("orders", 0, 0, 1_000, 1_000, max_bytes=1 << 30)

    plain = OptionalFields(timestamp_type=False, leader_epoch=False)
    chunks = list(chain.from_iterable(KafkaReader({}, engine="python").read([all_of_it], plain)))

    assert sum(map(len, chunks)) == 1_000
    assert max(chunk.payload_bytes for chunk in chunks) < 2 * CHUNK_BYTES


class Queue:
    """One queue for all partitions, as the client has it: `came` is what it hands out, in this order."""

    def __init__(self, came: list[Message]) -> None:
        self.came = came
        self.removed: list[tuple[str, int]] = []

    def assign(self, partitions: object) -> None: ...

    def unassign(self) -> None: ...

    def incremental_assign(self, partitions: object) -> None: ...

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.removed += [(each.topic, each.partition) for each in partitions]

    def consume(self, count: int, timeout: float) -> list[Message]:
        del timeout
        taken, self.came = self.came[:count], self.came[count:]
        return taken


def ranges_of(count: int) -> list[OffsetRange]:
    return [OffsetRange("orders", n, 0, 2, 2, max_bytes=1 << 30) for n in range(count)]


def test_a_late_error_of_a_range_that_was_left_is_not_blamed_on_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Message("orders", 0, 2, error=KafkaError(KafkaError._AUTO_OFFSET_RESET, "offset not available"))
    rows = [Message("orders", number, n, b"k", b"v", timestamp=(1, 1)) for number in (0, 1) for n in (0, 1)]
    queue = Queue([*rows[:2], late, *rows[2:]])
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: queue)

    reads = KafkaReader({}, engine="python").read(
        ranges_of(2), OptionalFields(timestamp_type=False, leader_epoch=False)
    )
    found = [[offset for chunk in chunks for offset in chunk.offsets.to_pylist()] for chunks in reads]

    assert found == [[0, 1], [0, 1]]


@pytest.mark.parametrize("value", [None, b"", b"v"])
def test_messages_without_bytes_take_memory_too(value: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough of them are put aside: their partition leaves the assignment."""
    monkeypatch.setattr(message_consumer, "ASIDE_BYTES", 100 << 10)
    others = [Message("orders", 1, n, None, value, timestamp=(1, 1)) for n in range(200)]
    queue = Queue([*others, *(Message("orders", 0, n, b"k", b"v", timestamp=(1, 1)) for n in (0, 1))])
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: queue)

    reads = KafkaReader({}, engine="python").read(
        ranges_of(2), OptionalFields(timestamp_type=False, leader_epoch=False)
    )
    next(next(reads))

    assert queue.removed == [("orders", 1)]
