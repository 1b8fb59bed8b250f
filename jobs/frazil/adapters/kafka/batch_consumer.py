"""Polls librdkafka in the native module, which returns Arrow batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, cast

import confluent_kafka
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, cimpl

from frazil.adapters.kafka.errors import Heard
from frazil.adapters.kafka.partition_consumer import POLL_SECONDS, Polled, PollLimits
from frazil.formats.native import native_available
from frazil.model.plan import OffsetRange
from frazil.records import Headers, OptionalFields, Records

if TYPE_CHECKING:
    import frazil_native

NewToken = Callable[[str], tuple[str, float]]
"""An `oauth_cb`: returns a token and when it ends, in seconds since 1970."""

TOKEN_LIFE = 0.7
"""The share of a token's life after which it is replaced: librdkafka asks for the next one after 0.8."""

TOKEN_RETRY_SECONDS = 10.0
LEAST_TOKEN_SECONDS = 0.1
"""The least time between two tokens, whatever their life."""

PARTITION_QUEUE_KBYTES = 2 << 10
"""The limit of each partition's queue, which one more fetch may exceed; there are `prefetch.FETCHED_RANGES` queues."""


@cache
def why_not_native() -> str | None:
    """Return why records cannot be fetched in the native module; None if they can."""
    if not native_available():
        return "the native module is not built"
    import frazil_native  # noqa: PLC0415 - it may not be built

    try:
        version = frazil_native.librdkafka_version(_linked_module())
        frazil_native.BatchConsumer.remove  # noqa: B018 - the method that was added last
    except AttributeError:
        return "the native module is older than Frazil"
    except ValueError as problem:
        return f"confluent-kafka's librdkafka: {problem}"
    if version != confluent_kafka.libversion()[1]:
        return f"confluent-kafka uses librdkafka {confluent_kafka.libversion()[0]}, but {version:#x} was found"
    return None


def _linked_module() -> str:
    """Return the file of confluent-kafka's extension module, whose handle finds librdkafka however it is linked."""
    return str(cimpl.__file__)


class BatchConsumer:
    """Consumes in the native module (`partition_consumer.PartitionConsumer`)."""

    def __init__(self, client: frazil_native.BatchConsumer, heard: Heard, tokens: TokenRenewal | None) -> None:
        self._client = client
        self._heard = heard
        self._tokens = tokens

    @classmethod
    def start(cls, settings: Mapping[str, object], heard: Heard) -> BatchConsumer:
        """Start a client and the renewal of its tokens. Raises ValueError for bad settings."""
        import frazil_native  # noqa: PLC0415 - it may not be built

        ours = {**settings, "queued.max.messages.kbytes": PARTITION_QUEUE_KBYTES}
        plain = [(name, _text(value)) for name, value in ours.items() if name != "oauth_cb"]
        new_token = cast("NewToken | None", settings.get("oauth_cb"))
        client = frazil_native.BatchConsumer(_linked_module(), plain, new_token is not None)
        tokens = None if new_token is None else TokenRenewal(client, new_token)
        if tokens is not None:
            tokens.start()
        return cls(client, heard, tokens)

    def forget_errors(self) -> None:
        self._listen()
        self._heard.clear()

    def assign(self, ranges: Sequence[OffsetRange]) -> None:
        with refusals():
            self._client.assign([(each.topic, each.partition, each.start) for each in ranges])

    def add(self, ranges: Sequence[OffsetRange]) -> None:
        with refusals():
            self._client.add([(each.topic, each.partition, each.start) for each in ranges])

    def remove(self, ranges: Sequence[OffsetRange]) -> None:
        with refusals():
            self._client.remove([(each.topic, each.partition) for each in ranges])

    def unassign(self) -> None:
        with refusals():
            self._client.unassign()

    def position(self, wanted: OffsetRange) -> int:
        with refusals():
            return self._client.position(wanted.topic, wanted.partition)

    def close(self) -> None:
        if self._tokens is not None:
            self._tokens.stop()
        self._client.close()

    def poll(self, wanted: OffsetRange, limits: PollLimits, optional: OptionalFields) -> Polled:
        with refusals():
            columns, partition_end, error = self._client.poll(
                wanted.topic,
                wanted.partition,
                most=limits.records,
                most_bytes=limits.byte_limit,
                one_by_one=limits.exact,
                end=limits.end,
                wait_ms=int(POLL_SECONDS * 1000),
            )
        self._listen()
        return Polled(_records(columns, optional), partition_end, None if error is None else KafkaError(*error))

    def _listen(self) -> None:
        """Take over what happened in librdkafka's threads since the last call."""
        errors, token_wanted = self._client.events()
        self._heard.extend(KafkaError(code, text) for code, text in errors)
        if token_wanted and self._tokens is not None:
            self._tokens.renew()


class TokenRenewal:
    """Sets tokens before they end, in a thread of its own: librdkafka also logs in while no records are read."""

    def __init__(self, client: frazil_native.BatchConsumer, new_token: NewToken) -> None:
        self._client = client
        self._new_token = new_token
        self._next_at = 0.0
        self._ended = threading.Event()
        self._one_at_a_time = threading.Lock()

    def start(self) -> None:
        """Set the first token now, and renew it in a thread until `stop`."""
        self.renew()
        threading.Thread(target=self._run, name="frazil-kafka-tokens", daemon=True).start()

    def stop(self) -> None:
        """Set no token from now on, so that the client may be closed."""
        with self._one_at_a_time:
            self._ended.set()

    def renew(self) -> None:
        with self._one_at_a_time:
            if not self._ended.is_set():
                self._set_token()

    def _run(self) -> None:
        while not self._ended.wait(max(self._next_at - time.time(), LEAST_TOKEN_SECONDS)):
            self.renew()

    def _set_token(self) -> None:
        now = time.time()
        try:
            token, ends = self._new_token("")
            self._client.set_token(token, int(ends * 1000))
        except Exception as problem:  # noqa: BLE001 - the client reports it, as it does with a callback
            self._client.fail_token(str(problem))
            self._next_at = now + TOKEN_RETRY_SECONDS
        else:
            self._next_at = now + TOKEN_LIFE * (ends - now)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise KafkaException for a code and a text of librdkafka."""
    try:
        yield
    except RuntimeError as refused:
        if len(refused.args) != 2:
            raise
        raise KafkaException(KafkaError(*refused.args)) from refused


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _records(columns: Sequence[pa.Array], optional: OptionalFields) -> Records:
    """The columns, without a copy."""
    offsets, timestamps_ms, timestamp_types, leader_epochs, keys, values, headers, problems = columns
    some = len(offsets) > 0
    return Records(
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        keys=keys,
        values=values,
        headers=Headers(headers, problems),
        next_offset=offsets[-1].as_py() + 1 if some else -1,
        last_leader_epoch=leader_epochs[-1].as_py() if some else None,
        timestamp_types=timestamp_types if optional.timestamp_type else None,
        leader_epochs=leader_epochs if optional.leader_epoch else None,
    )
