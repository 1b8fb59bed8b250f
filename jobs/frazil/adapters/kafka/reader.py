"""Reads one range of one partition from Kafka, and proves that nothing in it was passed over."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import cast, overload

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from frazil.adapters.kafka.errors import ear, hint_of, said
from frazil.adapters.kafka.topics import consumer_settings
from frazil.model.errors import BrokerError, RecordsLostError
from frazil.model.plan import OffsetRange
from frazil.model.spec import SettingValue
from frazil.records import Headers, OptionalFields, Records, UnreadableHeaders, binary

CHUNK = 5_000
"""Records handed on at a time: large enough to spread the cost of a call, small enough to stay in the caches."""

FIRST_CHUNK = 16
"""Where a chunk is bounded by bytes, how many records the first one has; the next are at most twice as many."""

SMALL_QUEUE = {"fetch.max.bytes": 8 << 20, "queued.max.messages.kbytes": 8 << 10, "queued.min.messages": 1_000}
"""Where chunks are bounded by bytes, so is what the client holds ahead of them."""

TWICE_BYTES = 1 << 20
"""Values of a chunk that are not held twice: dropping them from the messages takes about 30 ns a record."""

POLL_SECONDS = 0.2
STALLED_SECONDS = 60.0
"""A range without progress for this long fails, and is read again by the task's next attempt."""

SHOWN_BYTES = 40
"""Of a header's key that is no text."""

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CREATE_TIME", TIMESTAMP_LOG_APPEND_TIME: "LOG_APPEND_TIME"}


class KafkaReader:
    """One consumer, used for one range after the other (`ports.RecordReader`)."""

    def __init__(self, settings: Mapping[str, SettingValue], *, chunk_bytes: int | None = None) -> None:
        self._servers = str(settings.get("bootstrap.servers", ""))
        self._chunk_bytes = chunk_bytes
        self._heard = ear()
        self._closed = False
        small = {} if chunk_bytes is None else SMALL_QUEUE
        self._consumer = Consumer({**consumer_settings(settings), **small, "error_cb": self._heard.append})

    def close(self) -> None:
        """Leave the cluster in order: a client that is only forgotten may take the process with it."""
        self._closed = True
        self._consumer.close()

    def read(self, wanted_range: OffsetRange, optional: OptionalFields) -> Iterator[Records]:
        """Chunks of the range in order. The last one's `next_offset` is the range's end, or where the caller stops."""
        where = TopicPartition(wanted_range.topic, wanted_range.partition, wanted_range.start)
        self._heard.clear()
        self._consumer.assign([where])
        try:
            yield from self._chunks(wanted_range, where, optional)
        finally:
            if not self._closed:  # a failed task's reader is closed before what read from it is forgotten
                self._consumer.unassign()

    def _chunks(self, wanted_range: OffsetRange, where: TopicPartition, optional: OptionalFields) -> Iterator[Records]:
        position, end = wanted_range.start, wanted_range.end
        progressed, count = time.monotonic(), CHUNK if self._chunk_bytes is None else FIRST_CHUNK
        while position < end:
            polled = self._polled(min(count, end - position))
            messages, end_of_partition = self._sorted_out(polled, wanted_range)
            inside = messages if not messages or _offset(messages[-1]) < end else _before(messages, end)
            reached = self._reached(messages, end_of_partition, where, position)
            if reached > position:
                progressed = time.monotonic()
            elif time.monotonic() - progressed > STALLED_SECONDS:
                raise self._stalled(wanted_range, position)
            if inside and _offset(inside[0]) < position:
                raise self._jumped_back(wanted_range, position, _offset(inside[0]))
            position = min(reached, end)
            if inside or position >= end:
                records = _records(inside, position, optional)
                if self._chunk_bytes is not None or records.values.nbytes >= TWICE_BYTES:
                    _drop_values(inside)
                count = self._next_count(records, count)
                yield records

    def _polled(self, count: int) -> list[Message]:
        """Return up to `count` records, or fewer: the last one reaches `chunk_bytes` if that is set."""
        if self._chunk_bytes is None:
            return self._consumer.consume(count, POLL_SECONDS)
        polled: list[Message] = []
        held = 0
        while len(polled) < count and held < self._chunk_bytes:
            message = self._consumer.poll(0 if polled else POLL_SECONDS)
            if message is None:
                break
            polled.append(message)
            held += len(message.value() or b"") + len(message.key() or b"")
        return polled

    def _next_count(self, records: Records, count: int) -> int:
        """Return the number of records in a chunk of `chunk_bytes`, by the size of the last ones."""
        if self._chunk_bytes is None or not len(records):
            return count
        fitting = self._chunk_bytes * len(records) // max(records.payload_bytes, 1)
        return max(min(fitting, 2 * count, CHUNK), 1)

    def _reached(
        self, messages: list[Message], end_of_partition: int | None, where: TopicPartition, position: int
    ) -> int:
        """The offset up to which the broker has shown all that it has.

        Control records and aborted transactions are never handed out: only the consumer's own position, or the end
        of the partition, passes them.
        """
        reached = position
        if messages:
            reached = _offset(messages[-1]) + 1
        if end_of_partition is not None:
            reached = max(reached, end_of_partition)
        if not messages:
            reached = max(reached, self._consumer.position([where])[0].offset)
        return reached

    def _sorted_out(self, polled: list[Message], wanted_range: OffsetRange) -> tuple[list[Message], int | None]:
        """Records, and the offset of the partition's end where the broker said that it was met."""
        if not any(map(Message.error, polled)):
            return polled, None
        end_of_partition = None
        for message in polled:
            error = message.error()
            if error is None:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._failed(wanted_range, error)
            end_of_partition = message.offset()
        return [message for message in polled if message.error() is None], end_of_partition

    def _failed(self, wanted_range: OffsetRange, error: KafkaError) -> BrokerError | RecordsLostError:
        name = f"{wanted_range.topic}-{wanted_range.partition}"
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            return RecordsLostError(
                f"{name}: offsets [{wanted_range.start}, {wanted_range.end}) existed when the batch was planned but"
                f" are gone: {error.str()}",
                hint="retention removed records during the read: raise the topic's retention",
            )
        return BrokerError(
            f"{name}: reading offsets [{wanted_range.start}, {wanted_range.end}) from {self._servers} failed:"
            f" {error.str()}",
            hint=hint_of(
                [error],
                otherwise="check that the cluster is up and that this user may read the topic; the next run"
                " reads the range"
                " again",
                topic=wanted_range.topic,
            ),
        )

    def _stalled(self, wanted_range: OffsetRange, position: int) -> BrokerError:
        return BrokerError(
            f"{wanted_range.topic}-{wanted_range.partition}: no record arrived for {STALLED_SECONDS:.0f} s at offset"
            f" {position}, expected up to {wanted_range.end}{said(self._heard)}",
            hint=hint_of(
                self._heard,
                otherwise="check that the cluster is up; the next run reads the range again",
                topic=wanted_range.topic,
            ),
        )

    def _jumped_back(self, wanted_range: OffsetRange, position: int, found: int) -> BrokerError:
        return BrokerError(
            f"{wanted_range.topic}-{wanted_range.partition}: the broker returned offset {found}, expected"
            f" {position} or later",
            hint="the partition was truncated during the read; the next run compares it with the table",
        )


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
            problem = UnreadableHeaders(f"a header key is not UTF-8: {_shown(cause.object)}")
            self._unreadable[_offset(message)] = problem
            return problem


_ask_for_headers = operator.methodcaller("headers")
"""For a key that is not UTF-8 the client returns a list and leaves an exception pending: a call from C checks for both,
a plain call that the interpreter has optimized does not, and the exception shows up anywhere."""


def _shown(key: bytes) -> str:
    return f"0x{key[:SHOWN_BYTES].hex()}{'…' if len(key) > SHOWN_BYTES else ''}"


def _offset(message: Message) -> int:
    return cast("int", message.offset())


def _before(messages: list[Message], end: int) -> list[Message]:
    return [message for message in messages if _offset(message) < end]


def _records(messages: list[Message], next_offset: int, optional: OptionalFields) -> Records:
    """Columns of the messages, most of them one pass in C: this is what a record costs in Python."""
    return Records(
        offsets=cast("list[int]", list(map(Message.offset, messages))),
        timestamps_ms=_milliseconds(messages),
        keys=binary(cast("list[bytes | None]", list(map(Message.key, messages)))),
        values=binary(cast("list[bytes | None]", list(map(Message.value, messages)))),
        next_offset=next_offset,
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
