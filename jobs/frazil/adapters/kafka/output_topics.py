"""Output topics through the transactional producer of confluent-kafka (`outputs.ports.OutputTopics`).

What Kafka promises here (KIP-98, KIP-447):

- `init_transactions` waits until a transaction that another producer of the same transactional id left is committed or
  aborted, and fences that producer: whatever it sends or commits afterwards is refused.
- Records of any partitions and committed offsets of a group become visible together, to readers with
  `isolation.level=read_committed`.
- A committed offset is read with `require_stable`, which librdkafka asks for if `isolation.level` is `read_committed`:
  the coordinator does not answer while a transaction with an offset of this partition is open.
- The coordinator aborts a transaction that takes longer than `transaction.timeout.ms`, and raises the epoch of its
  producer. Whatever this producer asks for afterwards is refused with the error of one that was fenced: the error that
  would tell both apart (KIP-588) is in no release.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from frazil.adapters.kafka.coordinator import asked_of_coordinator
from frazil.adapters.kafka.errors import Heard, ear, said
from frazil.adapters.kafka.output_permissions import TO_GROUPS, TO_TOPICS, WHO, check_permissions
from frazil.adapters.kafka.topics import IS_IT_UP, librdkafka
from frazil.model.errors import BrokerError, FencedError, TopicMissingError, TransactionTimedOutError
from frazil.model.outputs import OUTPUT_GROUP, Marker, OutputSpec, Part, ShardPlace
from frazil.model.secret import SettingValue
from frazil.outputs.ports import Encoded, ShardProducer

ANSWER_SECONDS = 15.0

DECIDED_SECONDS = 5.0
"""How long to wait for the end of an open transaction before it is taken for one that a process left."""

INIT_SECONDS = 60.0
"""How long to wait for the end of the transaction that another process left."""

COMMIT_SECONDS = 120.0

TRANSACTION_MS = 10 * 60 * 1000
"""How long a transaction may take. Brokers allow 15 minutes (`transaction.max.timeout.ms`) by default.

If a process dies, the transaction stays open for so long, unless another process takes the shard over before.
"""

BATCH_BYTES = 512 << 10
QUEUE_KBYTES = 64 << 10
LARGEST_RECORD_BYTES = QUEUE_KBYTES << 10
"""No more fits into the queue; below it, the topic's own limit decides (`max.message.bytes`). The default is 1 MB."""

NO_SNAPSHOT = -1

FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

Answer = TypeVar("Answer")


class KafkaOutputTopics:
    """Output topics of one cluster."""

    def __init__(self, settings: Mapping[str, SettingValue]) -> None:
        self._settings = settings

    def partitions(self, topic: str) -> int:
        heard = ear()
        producer = Producer(_client(self._settings, heard))

        def failed(error: KafkaError) -> Exception:
            return _failure(f"describe {topic}", error, heard, topic)

        found = _asked(lambda: producer.list_topics(topic, timeout=ANSWER_SECONDS), heard, failed)
        described = found.topics.get(topic)
        if described is None or described.error is not None or not described.partitions:
            code = None if described is None or described.error is None else described.error.code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise BrokerError(f"Kafka could not describe {topic}: {described.error.str()}", hint=_hint(code, topic))
            raise TopicMissingError(
                f"the cluster has no topic {topic}, which a table has as its output",
                hint="create the topic, with the partitions and the retention or compaction that its readers need, and "
                + TO_TOPICS.format(topic=topic),
            )
        return len(described.partitions)

    def check_permissions(self, output: OutputSpec) -> None:
        check_permissions(_client(self._settings, ear()), output)

    def markers(self, places: Sequence[ShardPlace]) -> list[Marker | None] | None:
        try:
            return self._markers(places, "read_committed", DECIDED_SECONDS)
        except BrokerError as failure:
            if not _is_time_out(failure.__cause__):
                raise
        self._markers(places, "read_uncommitted", ANSWER_SECONDS)  # raises if the cluster does not answer at all
        return None

    def _markers(self, places: Sequence[ShardPlace], isolation: str, seconds: float) -> list[Marker | None]:
        heard = ear()
        consumer = _consumer(self._settings, places[0].group, heard, isolation)
        try:
            return _committed(consumer, heard, places, seconds)
        finally:
            consumer.close()

    def open(self, place: ShardPlace) -> ShardProducer:
        return TransactionalProducer.started(self._settings, place)


class TransactionalProducer:
    """The producer of one shard. The consumer is used for the offsets of its group, and never joins it."""

    def __init__(self, producer: Producer, consumer: Consumer, place: ShardPlace, heard: Heard) -> None:
        self._producer = producer
        self._consumer = consumer
        self._place = place
        self._heard = heard
        self._began: tuple[float, ...] | None = None
        self._ours: list[tuple[Marker | None, datetime | None]] = []

    @classmethod
    def started(cls, settings: Mapping[str, SettingValue], place: ShardPlace) -> TransactionalProducer:
        heard = ear()
        ours = {
            "transactional.id": place.transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": LARGEST_RECORD_BYTES,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
            "queue.buffering.max.messages": 200_000,
        }
        producer = Producer(cast("dict[str, Any]", {**_client(settings, heard), **ours}))
        made = cls(producer, _consumer(settings, place.group, heard), place, heard)
        try:
            made._ask(lambda: producer.init_transactions(INIT_SECONDS), "take over the transactions")
        except Exception:
            made.close()
            raise
        return made

    def marker(self) -> Marker | None:
        found = self._committed()
        self._ours = [_exact(found)]
        return found

    def begin(self) -> None:
        self._ask(self._producer.begin_transaction, "begin a transaction")
        self._began = _clocks()

    def add(self, records: Encoded) -> None:
        values = records.values.to_pylist()
        keys = [None] * len(values) if records.keys is None else records.keys.to_pylist()
        topic, produce = self._place.topic, self._producer.produce
        for key, value, partition in zip(keys, values, records.partitions.to_pylist(), strict=True):
            try:
                produce(topic, value, key, partition)
            except BufferError:
                self._wait_for_room(key, value, partition)
            except KafkaException as refused:
                raise self._failed("send a record", refused.args[0]) from refused
        self._producer.poll(0)

    def commit(self, marker: Marker) -> None:
        self._ours.append(_exact(marker))
        self._ask(lambda: self._send_marker(marker), f"add the marker of {marker}")
        self._ask(lambda: self._producer.commit_transaction(COMMIT_SECONDS), f"commit the records of {marker}")
        self._began = None

    def abort(self) -> None:
        if self._began is not None:
            with suppress(KafkaException):
                self._producer.abort_transaction(ANSWER_SECONDS)
            self._began = None

    def close(self) -> None:
        with suppress(KafkaException, RuntimeError):
            self._producer.purge()
            self._producer.flush(0)
        self._consumer.close()

    def _wait_for_room(self, key: bytes | None, value: bytes | None, partition: int) -> None:
        """Send a record once there is room in the queue, which the transaction's timeout bounds."""
        while True:
            self._producer.poll(0.05)
            try:
                self._producer.produce(self._place.topic, value, key, partition)
            except BufferError:
                continue
            except KafkaException as refused:
                raise self._failed("send a record", refused.args[0]) from refused
            else:
                return

    def _send_marker(self, marker: Marker) -> None:
        at = None if marker.at is None else marker.at.isoformat()
        part = {} if marker.part is None else {"part": [marker.part.snapshot_id, marker.part.records]}
        text = json.dumps({"snapshot": marker.snapshot_id, "at": at} | part)
        offset = TopicPartition(self._place.topic, self._place.shard, marker.epoch, metadata=text)
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([offset], group, ANSWER_SECONDS)

    def _committed(self) -> Marker | None:
        return _committed(self._consumer, self._heard, [self._place])[0]

    def _ask(self, request: Callable[[], Answer], what: str) -> Answer:
        return _asked(request, self._heard, lambda error: self._failed(what, error))

    def _failed(self, what: str, error: KafkaError) -> Exception:
        named = f"{what} of {self._place.transactional_id}"
        failure = _failure(named, self._reason(error), self._heard, self._place.topic)
        if not isinstance(failure, FencedError) or not self._has_timed_out():
            return failure
        try:
            committed = _exact(self._committed())
        except BrokerError as unknown:
            return unknown
        return _timed_out(named, self._place.topic) if committed in self._ours else failure

    def _reason(self, error: KafkaError) -> KafkaError:
        """Return the error that ended the producer. `produce` only says that there was one."""
        if error.code() != KafkaError._FATAL:
            return error
        try:
            self._producer.begin_transaction()
        except KafkaException as refused:
            return cast("KafkaError", refused.args[0])
        return error

    def _has_timed_out(self) -> bool:
        """Return whether the broker may have aborted the transaction because of its age."""
        if self._began is None:
            return False
        return max(now - then for now, then in zip(_clocks(), self._began, strict=True)) * 1000 >= TRANSACTION_MS


def _clocks() -> tuple[float, ...]:
    """Return seconds of the wall clock, which counts a suspended machine's, and of one that is never set back."""
    return time.time(), time.monotonic()


def _exact(marker: Marker | None) -> tuple[Marker | None, datetime | None]:
    """Return a marker so that it equals only those that were committed at the same time."""
    return marker, None if marker is None else marker.at


def _client(settings: Mapping[str, SettingValue], heard: Heard) -> dict[str, object]:
    return {**librdkafka(settings), "log_level": 0, "error_cb": heard.append}


def _consumer(
    settings: Mapping[str, SettingValue], group: str, heard: Heard, isolation: str = "read_committed"
) -> Consumer:
    ours = {"group.id": group, "enable.auto.commit": False, "isolation.level": isolation}
    return Consumer(cast("dict[str, Any]", {**_client(settings, heard), **ours}))


def _is_time_out(cause: BaseException | None) -> bool:
    return isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError._TIMED_OUT


def _committed(
    consumer: Consumer, heard: Heard, places: Sequence[ShardPlace], seconds: float = ANSWER_SECONDS
) -> list[Marker | None]:
    wanted = [TopicPartition(place.topic, place.shard) for place in places]
    what = f"read the markers of the group {places[0].group}"
    committed = lambda: asked_of_coordinator(lambda: consumer.committed(wanted, seconds))  # noqa: E731

    def failed(error: KafkaError) -> Exception:
        return _failure(what, error, heard, places[0].topic)

    found = _asked(committed, heard, failed)
    for each in found:
        if each.error is not None:
            raise failed(each.error)
    return [None if each.offset < 0 else _marker(each) for each in found]


def _marker(committed: TopicPartition) -> Marker:
    """Return the marker. Offsets that others committed have other metadata, or none: they name no snapshot."""
    try:
        said = json.loads(committed.metadata or "{}")
        at, part = said.get("at"), said.get("part")
        when = None if at is None else datetime.fromisoformat(at)
        return Marker(committed.offset, said["snapshot"], when, None if part is None else Part(*part))
    except (ValueError, KeyError, AttributeError, TypeError):
        return Marker(committed.offset, NO_SNAPSHOT)


def _asked(request: Callable[[], Answer], heard: Heard, failed: Callable[[KafkaError], Exception]) -> Answer:
    """Return the answer. Raises the exception that `failed` returns for Kafka's error."""
    heard.clear()
    try:
        return request()
    except KafkaException as refused:
        raise failed(refused.args[0]) from refused


def _failure(what: str, error: KafkaError, heard: Heard, topic: str) -> Exception:
    if error.code() in FENCED:
        return FencedError(
            f"another process has taken over the output topic {topic}: Kafka refused to {what} ({error.str()})",
            hint="let one process run the table; this one stops",
        )
    return BrokerError(f"Kafka could not {what}: {error.str()}{said(heard)}", hint=_hint(error.code(), topic))


def _timed_out(what: str, topic: str) -> TransactionTimedOutError:
    return TransactionTimedOutError(
        f"Kafka could not {what}: the transaction in the output topic {topic} took longer than"
        f" {TRANSACTION_MS // 1000} s, so Kafka has aborted it, and no other process has sent anything since",
        hint="its records are sent again; if this happens often, the machine is suspended or the cluster too slow:"
        " docs/outputs.md, a transaction that timed out",
    )


_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "a row is larger than {topic} takes: raise `max.message.bytes` of the topic, or name"
    " fewer `columns` in the output; nothing is lost",
    KafkaError.INVALID_RECORD: "{topic} is compacted, and such a topic takes no record without a key: set its"
    " `cleanup.policy` to `delete` and run this again, which sends all that is unsent",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: TO_TOPICS,
    KafkaError.GROUP_AUTHORIZATION_FAILED: TO_GROUPS,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on the transactional ids with the"
    f" prefix {OUTPUT_GROUP} {WHO}",
}


def _hint(code: int | None, topic: str) -> str:
    known = _HINTS.get(code or 0)
    return IS_IT_UP if known is None else known.format(topic=topic)
