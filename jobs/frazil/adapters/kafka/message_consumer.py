"""Polls confluent-kafka's consumer, which makes a Python object of each record."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, cast, overload

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from frazil.adapters.kafka.errors import Heard
from frazil.adapters.kafka.partition_consumer import NO_RECORDS, POLL_SECONDS, Polled, PollLimits
from frazil.records import Headers, OptionalFields, Records, UnreadableHeaders, binary, unreadable_key

TWICE_BYTES = 1 << 20
"""Values of a chunk that are not held twice: dropping them from the messages takes about 30 ns a record."""

MOST_MESSAGES = 5_000
"""The maximum of one call without a limit of bytes: all messages are held at once, whatever their size."""

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CREATE_TIME", TIMESTAMP_LOG_APPEND_TIME: "LOG_APPEND_TIME"}


class MessageConsumer:
    """Consumes in Python (`partition_consumer.PartitionConsumer`)."""

    def __init__(self, settings: Mapping[str, object], heard: Heard) -> None:
        self._consumer = Consumer(cast("dict[str, Any]", {**settings, "error_cb": heard.append}))
        self._where = TopicPartition("")

    def assign(self, topic: str, partition: int, offset: int) -> None:
        self._where = TopicPartition(topic, partition, offset)
        self._consumer.assign([self._where])

    def unassign(self) -> None:
        self._consumer.unassign()

    def position(self) -> int:
        return self._consumer.position([self._where])[0].offset

    def close(self) -> None:
        self._consumer.close()

    def poll(self, limits: PollLimits, optional: OptionalFields) -> Polled:
        polled = self._polled(limits)
        error, partition_end = _errors(polled)
        if error is not None:
            return Polled(NO_RECORDS, error=error)
        messages = polled if partition_end is None else [each for each in polled if each.error() is None]
        records = _records(messages, optional)
        if limits.byte_limit is not None or records.values.nbytes >= TWICE_BYTES:
            _drop_values(messages)
        return Polled(records, partition_end)

    def _polled(self, limits: PollLimits) -> list[Message]:
        """Return up to the wanted number of messages, or fewer: the last one reaches the limit of bytes."""
        if limits.byte_limit is None:
            return self._consumer.consume(min(limits.records, MOST_MESSAGES), POLL_SECONDS)
        polled: list[Message] = []
        held = 0
        while len(polled) < limits.records and held < limits.byte_limit:
            message = self._consumer.poll(0 if polled else POLL_SECONDS)
            if message is None:
                break
            polled.append(message)
            held += len(message.value() or b"") + len(message.key() or b"")
        return polled


def _errors(polled: list[Message]) -> tuple[KafkaError | None, int | None]:
    """The first error, and the offset of the partition's end where the broker said that it was met."""
    partition_end = None
    if any(map(Message.error, polled)):
        for message in polled:
            error = message.error()
            if error is None:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                return error, None
            partition_end = message.offset()
    return None, partition_end


Found = Headers | UnreadableHeaders | None


class _HeadersOf(Sequence[Found]):
    """Headers, read from their message only when they are asked for: most tables never do.

    A message is asked once for headers that cannot be decoded: the client answers a second time with a list that has
    holes, and reading a hole crashes the process.
    """

    def __init__(self, messages: list[Message], unreadable: dict[int, UnreadableHeaders] | None = None) -> None:
        self._messages = messages
        self._unreadable = {} if unreadable is None else unreadable

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Found: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Found]: ...
    def __getitem__(self, index: int | slice) -> Found | Sequence[Found]:
        if isinstance(index, slice):
            return _HeadersOf(self._messages[index], self._unreadable)
        message = self._messages[index]
        return self._unreadable.get(_offset(message)) or self._read(message)

    def _read(self, message: Message) -> Found:
        try:
            return cast("Headers | None", _ask_for_headers(message))
        except (UnicodeDecodeError, SystemError) as bad:
            cause = bad if isinstance(bad, UnicodeDecodeError) else bad.__cause__
            if not isinstance(cause, UnicodeDecodeError):
                raise
            problem = unreadable_key(cause.object)
            self._unreadable[_offset(message)] = problem
            return problem


_ask_for_headers = operator.methodcaller("headers")
"""For a key that is not UTF-8 the client returns a list and leaves an exception pending: a call from C checks for both,
a plain call that the interpreter has optimized does not, and the exception shows up anywhere."""


def _offset(message: Message) -> int:
    return cast("int", message.offset())


def _records(messages: list[Message], optional: OptionalFields) -> Records:
    """Columns of the messages, most of them one pass in C: this is what a record costs in Python."""
    offsets = cast("list[int]", list(map(Message.offset, messages)))
    return Records(
        offsets=offsets,
        timestamps_ms=_milliseconds(messages),
        keys=binary(cast("list[bytes | None]", list(map(Message.key, messages)))),
        values=binary(cast("list[bytes | None]", list(map(Message.value, messages)))),
        next_offset=offsets[-1] + 1 if offsets else -1,
        last_leader_epoch=messages[-1].leader_epoch() if messages else None,
        headers=_HeadersOf(messages),
        timestamp_types=list(map(_kind, messages)) if optional.timestamp_type else (),
        leader_epochs=list(map(Message.leader_epoch, messages)) if optional.leader_epoch else (),
    )


def _drop_values(messages: list[Message]) -> None:
    """Free what `Records` has a copy of: the messages live on for their headers."""
    deque(map(Message.set_value, messages, repeat(None)), maxlen=0)


def _milliseconds(messages: list[Message]) -> list[int | None]:
    """Return the timestamps; None for a record without one, which Kafka writes as -1."""
    stamps: list[int | None] = [message.timestamp()[1] for message in messages]
    return [None if stamp == -1 else stamp for stamp in stamps] if -1 in stamps else stamps


def _kind(message: Message) -> str | None:
    return _TIMESTAMP_TYPES.get(message.timestamp()[0])
