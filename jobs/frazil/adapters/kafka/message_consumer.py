"""Polls confluent-kafka's consumer, which makes a Python object of each record."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from frazil.adapters.kafka.errors import Heard
from frazil.adapters.kafka.partition_consumer import POLL_SECONDS, Polled, PollLimits
from frazil.model.plan import OffsetRange
from frazil.records import (
    HeaderList,
    Headers,
    HeadersBuilder,
    OptionalFields,
    Records,
    UnreadableHeaders,
    binary,
    unreadable_key,
)

SHARED_QUEUE_KBYTES = 64 << 10
"""The limit of the queue that all partitions share, unless the caller sets another."""

ASIDE_BYTES = 2 << 20
"""The memory of a partition's messages that are put aside before the partition leaves the assignment."""

MESSAGE_BYTES = 1 << 10
"""The memory of a message without its key and value, about: librdkafka's part, the object and headers of usual size."""

MOST_MESSAGES = 5_000
"""The maximum of one poll: all messages are held at once, and more of them cost up to a fifth more CPU each."""

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CREATE_TIME", TIMESTAMP_LOG_APPEND_TIME: "LOG_APPEND_TIME"}


Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Stash:
    """Messages of one partition that arrived while another was read. If they are too many, it is not assigned."""

    messages: deque[Message] = field(default_factory=deque)
    bytes: int = 0
    assigned: bool = True

    @property
    def next_offset(self) -> int:
        """The offset after the last message, of which there has to be one; the end of a partition is its own."""
        last = self.messages[-1]
        return (last.offset() or 0) + (last.error() is None)


class MessageConsumer:
    """Consumes in Python (`partition_consumer.PartitionConsumer`).

    confluent-kafka has one queue for all partitions: what is not asked for yet is put aside, and a partition of which
    enough is put aside is fetched no further until its turn. It is not paused: after that, librdkafka takes up to a
    second to fetch it again.
    """

    def __init__(self, settings: Mapping[str, object], heard: Heard, queue_kbytes: int = SHARED_QUEUE_KBYTES) -> None:
        ours = {"queued.max.messages.kbytes": queue_kbytes, "error_cb": heard.append}
        self._consumer = Consumer(cast("dict[str, Any]", {**settings, **ours}))
        self._heard = heard
        self._stashes: dict[Place, Stash] = {}

    def forget_errors(self) -> None:
        self._heard.clear()

    def assign(self, ranges: Sequence[OffsetRange]) -> None:
        self._stashes = {_place(each): Stash() for each in ranges}
        self._consumer.assign(list(map(_start, ranges)))

    def add(self, ranges: Sequence[OffsetRange]) -> None:
        self._stashes.update({_place(each): Stash() for each in ranges})
        self._consumer.incremental_assign(list(map(_start, ranges)))

    def remove(self, ranges: Sequence[OffsetRange]) -> None:
        removed = [TopicPartition(*place) for each in ranges if self._stashes.pop(place := _place(each)).assigned]
        if removed:
            self._consumer.incremental_unassign(removed)

    def unassign(self) -> None:
        self._stashes = {}
        self._consumer.unassign()

    def position(self, wanted: OffsetRange) -> int:
        """Return the position, or a negative number while messages before it are put aside: they are still to come."""
        if self._stashes[_place(wanted)].messages:
            return -1
        return self._consumer.position([_start(wanted)])[0].offset

    def close(self) -> None:
        self._consumer.close()

    def poll(self, wanted: OffsetRange, limits: PollLimits, optional: OptionalFields) -> Polled:
        fewer = replace(limits, records=min(limits.records, MOST_MESSAGES))
        messages, headers, special = self._polled(_place(wanted), fewer)
        error, partition_end = _errors(special)
        return Polled(_records(messages, headers, optional), partition_end, error)

    def _polled(self, place: Place, limits: PollLimits) -> tuple[list[Message], Headers, list[Message]]:
        """Return a partition's records up to the limits, its end or an error, or what came within POLL_SECONDS.

        They are messages, their headers, and the messages that are no records.
        """
        deadline = time.monotonic() + POLL_SECONDS
        polled: list[Message] = []
        special: list[Message] = []
        headers = HeadersBuilder()
        payload = 0
        while not limits.reached(len(polled), payload + headers.memory):
            step = self._step(place, limits.step(len(polled), payload + headers.memory), deadline)
            special = [each for each in step if each.error() is not None] if any(map(Message.error, step)) else []
            records = [each for each in step if each.error() is None] if special else step
            polled += records
            payload += _payload_bytes(records)
            for message in records:
                headers.add(_headers(message))
            if not step or special or (step[-1].offset() or 0) >= limits.end - 1:
                break
        return polled, headers.finish(), special

    def _step(self, place: Place, count: int, deadline: float) -> list[Message]:
        """Return the next messages of a partition, up to `count`; none if none has come by the deadline.

        The only partition that is left needs no sorting: of those that were removed, librdkafka discards the messages,
        which have the version of an earlier assignment (`rd_kafka_op_version_outdated`), and may return errors.
        """
        stash = self._stashes[place]
        while not stash.messages:
            came = self._consumer.consume(count, 0) or self._consumer.consume(1, max(deadline - time.monotonic(), 0))
            if not came or (len(self._stashes) == 1 and not any(map(Message.error, came))):
                return came
            self._put_aside(came, stash)
            if not stash.messages and time.monotonic() >= deadline:
                return []
        if not stash.assigned and len(stash.messages) <= count:
            self._consumer.incremental_assign([TopicPartition(*place, stash.next_offset)])
            stash.assigned = True
        taken = [stash.messages.popleft() for _ in range(min(count, len(stash.messages)))]
        stash.bytes -= _memory_of(taken)
        return taken

    def _put_aside(self, messages: list[Message], asked: Stash) -> None:
        """Sort messages by partition. An error without a partition belongs to the one that is asked for."""
        for message in messages:
            topic, partition = message.topic() or "", message.partition()
            named = topic and partition is not None and partition >= 0
            stash = self._stashes.get((topic, partition or 0)) if named else asked
            if stash is None:
                continue  # an error from before its partition was removed
            stash.messages.append(message)
            stash.bytes += _memory_of([message])
        full = {
            place: stash
            for place, stash in self._stashes.items()
            if stash is not asked and stash.assigned and stash.bytes >= ASIDE_BYTES
        }
        if full:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in full])
        for stash in full.values():
            stash.assigned = False


def _place(wanted: OffsetRange) -> Place:
    return wanted.topic, wanted.partition


def _start(wanted: OffsetRange) -> TopicPartition:
    return TopicPartition(wanted.topic, wanted.partition, wanted.start)


def _payload_bytes(messages: Sequence[Message]) -> int:
    """Bytes of keys and values."""
    return sum(map(len, messages)) + sum(map(len, filter(None, map(Message.key, messages))))


def _memory_of(messages: Sequence[Message]) -> int:
    return len(messages) * MESSAGE_BYTES + _payload_bytes(messages)


def _errors(special: list[Message]) -> tuple[KafkaError | None, int | None]:
    """The first error, and the offset of the partition's end where the broker said that it was met."""
    first, partition_end = None, None
    for message in special:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            partition_end = message.offset()
        else:
            first = first or error
    return first, partition_end


def _headers(message: Message) -> HeaderList:
    """The headers of a message, which must be asked once.

    For headers that cannot be decoded, the client answers a second time with a list that has holes, and reading a hole
    crashes the process. It raises one error for each key that is not UTF-8, each caused by the one before.
    """
    try:
        return cast("HeaderList", _ask_for_headers(message))
    except (UnicodeDecodeError, SystemError) as bad:
        first = _first_cause(bad)
        if not isinstance(first, UnicodeDecodeError):
            raise
        return UnreadableHeaders(unreadable_key(first.object))


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_ask_for_headers = operator.methodcaller("headers")
"""For a key that is not UTF-8 the client returns a list and leaves an exception pending: a call from C checks for both,
a plain call that the interpreter has optimized does not, and the exception shows up anywhere."""


def _records(messages: list[Message], headers: Headers, optional: OptionalFields) -> Records:
    """Columns of the messages, most of them one pass in C: this is what a record costs in Python."""
    offsets = cast("list[int]", list(map(Message.offset, messages)))
    epochs = pa.array(list(map(Message.leader_epoch, messages)), pa.int32()) if optional.leader_epoch else None
    return Records(
        offsets=pa.array(offsets, pa.int64()),
        timestamps_ms=pa.array(_milliseconds(messages), pa.int64()),
        keys=binary(cast("list[bytes | None]", list(map(Message.key, messages)))),
        values=binary(cast("list[bytes | None]", list(map(Message.value, messages)))),
        headers=headers,
        next_offset=offsets[-1] + 1 if offsets else -1,
        last_leader_epoch=messages[-1].leader_epoch() if messages else None,
        timestamp_types=pa.array(list(map(_kind, messages)), pa.string()) if optional.timestamp_type else None,
        leader_epochs=epochs,
    )


def _milliseconds(messages: list[Message]) -> list[int | None]:
    """Return the timestamps; None for a record without one, which Kafka writes as -1."""
    stamps: list[int | None] = [message.timestamp()[1] for message in messages]
    return [None if stamp == -1 else stamp for stamp in stamps] if -1 in stamps else stamps


def _kind(message: Message) -> str | None:
    return _TIMESTAMP_TYPES.get(message.timestamp()[0])
