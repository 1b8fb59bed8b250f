"""Reads ranges of partitions from Kafka, and proves that nothing in them was passed over."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from frazil.adapters.kafka.batch_consumer import BatchConsumer, why_not_native
from frazil.adapters.kafka.errors import CONNECTION, Heard, ear, hint_of, said
from frazil.adapters.kafka.message_consumer import SHARED_QUEUE_KBYTES, MessageConsumer
from frazil.adapters.kafka.partition_consumer import PartitionConsumer, Polled, PollLimits
from frazil.adapters.kafka.prefetch import Prefetch
from frazil.adapters.kafka.topics import consumer_settings
from frazil.model.errors import BrokerError, MissingToolError, RecordsLostError, SettingError
from frazil.model.plan import OffsetRange
from frazil.model.secret import SettingValue
from frazil.records import OptionalFields, Records

LOG = logging.getLogger(__name__)

CHUNK = 40_000
"""Records handed on at a time: many share the cost of a call, also where some are bad or have 20 different schemas."""

CHUNK_BYTES = 32 << 20
"""A chunk ends with about the record that reaches this, where its caller has no limit of its own."""

SMALL_FETCHES = {"fetch.max.bytes": 8 << 20, "queued.min.messages": 1_000}
SMALL_QUEUE_KBYTES = 8 << 10
"""Where the caller bounds chunks by bytes, so is what the client holds ahead of them."""

STALLED_SECONDS = 60.0
"""A range without progress for this long fails, and is read again by the task's next attempt."""

Engine = Literal["native", "python"]


class KafkaReader:
    """One consumer, used for one read after the other (`ports.RecordReader`)."""

    def __init__(
        self, settings: Mapping[str, SettingValue], *, chunk_bytes: int | None = None, engine: Engine | None = None
    ) -> None:
        self._servers = str(settings.get("bootstrap.servers", ""))
        self._chunk_bytes = chunk_bytes
        self._heard = ear()
        self._prefetch: Prefetch | None = None
        fetches, queue = ({}, SHARED_QUEUE_KBYTES) if chunk_bytes is None else (SMALL_FETCHES, SMALL_QUEUE_KBYTES)
        self._consumer = open_consumer({**consumer_settings(settings), **fetches}, self._heard, engine, queue)

    def close(self) -> None:
        """Leave the cluster in order: a client that is only forgotten may take the process with it."""
        self._prefetch = None
        self._consumer.close()

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        """Chunks of each range in order, while the next ranges are fetched."""
        prefetch = self._prefetch = Prefetch(self._consumer, ranges)
        self._consumer.forget_errors()
        try:
            for wanted in ranges:
                with closing(self._range(wanted, prefetch, optional)) as chunks:
                    yield chunks
                prefetch.leave(wanted)
        finally:
            if self._prefetch is prefetch:  # this may run late: the reader of a failed task is closed before
                prefetch.end()

    def _range(self, wanted: OffsetRange, prefetch: Prefetch, optional: OptionalFields) -> Generator[Records]:
        try:
            prefetch.reach(wanted)
            for chunk in self._chunks(wanted, optional):
                if chunk:
                    prefetch.seen(len(chunk), chunk.memory)
                yield chunk
        except KafkaException as refused:
            raise self._failed(wanted, refused.args[0]) from refused

    def _chunks(self, wanted: OffsetRange, optional: OptionalFields) -> Iterator[Records]:
        """The last chunk's `next_offset` is the range's end, or where the caller stops."""
        position, end = wanted.start, wanted.end
        progressed = time.monotonic()
        while position < end:
            polled = self._consumer.poll(wanted, self._limits(position, end), optional)
            if polled.error is not None:
                self._judge(wanted, polled.error)
            inside = _before(polled.records, end)
            reached = self._reached(wanted, polled, position)
            if reached > position:
                progressed = time.monotonic()
            elif time.monotonic() - progressed > STALLED_SECONDS:
                raise self._stalled(wanted, position)
            if inside and inside.first_offset < position:
                raise self._jumped_back(wanted, position, inside.first_offset)
            position = min(reached, end)
            if inside or position >= end:
                yield replace(inside, next_offset=position)
                progressed = time.monotonic()  # the time that the caller took is none of the broker's

    def _judge(self, wanted: OffsetRange, error: KafkaError) -> None:
        """Raise an error, unless it may pass: it is then remembered, for the error of a range without progress."""
        if error.code() not in CONNECTION:
            raise self._failed(wanted, error)
        self._heard.append(error)

    def _limits(self, position: int, end: int) -> PollLimits:
        exact = self._chunk_bytes is not None
        return PollLimits(min(CHUNK, end - position), self._chunk_bytes or CHUNK_BYTES, exact, end)

    def _reached(self, wanted: OffsetRange, polled: Polled, position: int) -> int:
        """The offset up to which the broker has shown all that it has.

        Control records and aborted transactions are never handed out: only the consumer's own position, or the end
        of the partition, passes them.
        """
        reached = max(position, polled.partition_end or 0)
        if polled.records:
            return max(polled.records.next_offset, polled.partition_end or 0)
        return max(reached, self._consumer.position(wanted))

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


def open_consumer(
    settings: Mapping[str, object], heard: Heard, engine: Engine | None, shared_queue_kbytes: int = SHARED_QUEUE_KBYTES
) -> PartitionConsumer:
    """Return the native consumer if this machine can use it, else the one in Python; `engine` requests one.

    `shared_queue_kbytes` limits the queue of the one in Python; the native one has a smaller queue for each partition.

    Raises MissingToolError if the native one is requested and cannot be used, and SettingError if librdkafka refuses
    the settings.
    """
    problem = None if engine == "python" else why_not_native()
    if problem is not None and engine == "native":
        raise MissingToolError(f"the native Kafka reader cannot be used: {problem}", hint="run `make setup`")
    if problem is not None:
        _warn_once(problem)
    python = engine == "python" or problem is not None
    try:
        return MessageConsumer(settings, heard, shared_queue_kbytes) if python else BatchConsumer.start(settings, heard)
    except (KafkaException, ValueError) as refused:
        raise SettingError(
            f"the `kafka` settings cannot be used: {refused.args[0]}",
            hint="fix `kafka` in frazil.yaml; file paths are relative to its folder",
        ) from refused


def warn_if_fetching_in_python() -> None:
    """Log why records are fetched in Python, if they are; once a process."""
    problem = why_not_native()
    if problem is not None:
        _warn_once(problem)


@cache
def _warn_once(problem: str) -> None:
    LOG.warning("fetching_in_python", extra={"problem": problem, "cost": "two to three times the CPU of a fetch"})


def _before(records: Records, end: int) -> Records:
    """The records before an offset."""
    if not records or records.last_offset < end:
        return records
    return records.first(int(np.searchsorted(records.offsets.to_numpy(), end)))
