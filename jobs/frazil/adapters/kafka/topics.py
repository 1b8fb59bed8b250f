"""Kafka's topics and their offsets (`ports.Topics`), and the consumer configuration that tasks read with."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar, assert_never, cast

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._topic import TopicDescription

from frazil.adapters.kafka.coordinator import asked_of_coordinator
from frazil.adapters.kafka.errors import ear, hint_of, said
from frazil.adapters.kafka.msk_iam import for_this_process
from frazil.model.errors import BrokerError, LocalServicesError, SettingError
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.secret import SettingValue, revealed
from frazil.model.settings import NOT_RUNNING_HOST
from frazil.model.spec import Start, StartEarliest, StartLatest, StartOffsets, StartTimestamp
from frazil.specs.kafka_keys import FETCH_BYTES, READER_GROUP

LOG = logging.getLogger(__name__)

ANSWER_SECONDS = 15.0
"""How long the broker is given to answer one request."""

FIRST_ANSWER_SECONDS = 5.0
"""How long the first answer is awaited: a command says within 10 s, imports included, that the cluster is down."""

UNREACHABLE_SECONDS = 1.5
"""How long an answer is awaited once no broker takes a connection."""

SILENCE_SECONDS = 1.0
"""After this long without the first answer, a line in the log says what is awaited."""

UNREACHABLE = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})

LOOK_SECONDS = 0.1

IS_IT_UP = "check `kafka` in frazil.yaml and that the cluster is up (`frazil local up` starts one here)"

LISTINGS = 5
"""The number of times that the partitions are listed again because some were added meanwhile."""

ELECTIONS = 10
ELECTION_SECONDS = 0.2
"""A partition that was just made, or has just lost its broker, has no leader for a moment."""

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID: what a broker without topic ids (before KIP-516) answers."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def librdkafka(settings: Mapping[str, SettingValue]) -> dict[str, object]:
    """The user's `kafka` section as librdkafka takes it."""
    given: dict[str, object] = {**revealed(settings)}
    if given.pop("aws_msk_iam", "false") == "true":
        given |= for_this_process(str(given["bootstrap.servers"]))
    return given


def consumer_settings(settings: Mapping[str, SettingValue]) -> dict[str, object]:
    """Return settings to read explicit ranges: no group, committed records only, checksums, no silent reset, no log.

    The fetch sizes keep librdkafka from reading far past the end of a range (`bench/`). Each reader limits its queue.
    """
    return {
        **librdkafka(settings),
        "group.id": READER_GROUP,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "log_level": 0,
        "check.crcs": True,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "fetch.queue.backoff.ms": 5,
        "fetch.message.max.bytes": 256 << 10,
        "fetch.max.bytes": FETCH_BYTES,
        "queued.min.messages": 10_000,
    }


class KafkaTopics:
    """Topics, through librdkafka's admin client (`ports.Topics`)."""

    def __init__(self, settings: Mapping[str, SettingValue]) -> None:
        self._servers = str(settings.get("bootstrap.servers", ""))
        self._heard = ear()
        self._has_answered = False
        self._said_silent = False
        self._opened: float | None = time.monotonic()
        ours = {"log_level": 0, "error_cb": self._heard.append, "socket.timeout.ms": int(ANSWER_SECONDS * 1000)}
        self._admin = _admin({**librdkafka(settings), **ours})

    def describe(self, topic: str) -> TopicFacts | None:
        """Ask for the partitions again after the ends: before none of these did the topic have another partition.

        A truncate applies only in a topic with one partition.
        """
        described = self._described(topic)
        for _ in range(LISTINGS):
            if described is None:
                return None
            facts = self._facts(topic, described)
            listed, described = described, self._described(topic)
            if described is not None and _is_same(listed, described):
                return facts
        raise BrokerError(
            f"the partitions of the topic {topic} in the Kafka cluster at {self._servers} changed {LISTINGS} times"
            " while their offsets were asked for",
            hint="run the command again once the topic has all its partitions",
        )

    def _facts(self, topic: str, described: TopicDescription) -> TopicFacts:
        numbers = _numbers(described)
        earliest = self._offsets(topic, numbers, _EARLIEST)
        ends = self._offsets(topic, numbers, _LATEST)
        watermarks = self._offsets(topic, numbers, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        topic_id = str(described.topic_id)
        return TopicFacts(
            topic=topic,
            topic_id=None if topic_id == _NO_TOPIC_ID else topic_id,
            partitions={
                n: _facts(earliest[n].offset, ends[n].offset, watermarks[n].offset, _epoch(ends[n])) for n in numbers
            },
        )

    def names(self) -> Collection[str]:
        try:
            return sorted(self._admin.list_topics(timeout=ANSWER_SECONDS).topics)
        except KafkaException as problem:
            raise self._failed("list topics", problem, "") from problem

    def look_up_group(self) -> str:
        """Ask about the group that readers name, which takes the right that they need. Raises BrokerError."""
        what = f"describe the group {READER_GROUP}"
        asked = lambda: self._admin.describe_consumer_groups([READER_GROUP], request_timeout=ANSWER_SECONDS)  # noqa: E731
        try:
            asked_of_coordinator(lambda: self._answer(self._ask(what, "", asked)[READER_GROUP]))
        except (KafkaException, TimeoutError) as problem:
            raise self._failed(what, problem, "") from problem
        return f"readers may name the group {READER_GROUP}"

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        match start:
            case StartEarliest():
                return {n: p.earliest for n, p in facts.partitions.items()}
            case StartLatest():
                return {n: p.end for n, p in facts.partitions.items()}
            case StartOffsets(offsets):
                return {n: offsets.get(n, p.earliest) for n, p in facts.partitions.items()}
            case StartTimestamp(at):
                spec = OffsetSpec.for_timestamp(int(at.timestamp() * 1000))
                found = self._offsets(facts.topic, sorted(facts.partitions), spec)
                return {n: p.end if found[n].offset < 0 else found[n].offset for n, p in facts.partitions.items()}
            case _:
                assert_never(start)

    def _described(self, topic: str) -> TopicDescription | None:
        futures = self._ask(
            f"describe the topic {topic}",
            topic,
            lambda: self._admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS),
        )
        try:
            described: TopicDescription = self._answer(futures[topic])
        except (KafkaException, TimeoutError) as problem:
            if isinstance(problem, KafkaException) and problem.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._failed(f"describe the topic {topic}", problem, topic) from problem
        return described

    def _offsets(
        self,
        topic: str,
        numbers: Iterable[int],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, ListOffsetsResultInfo]:
        """Offsets by partition. `latest` is the last stable offset, or the high watermark if uncommitted counts."""
        asked = {TopicPartition(topic, n): spec for n in numbers}
        what = f"list offsets of the topic {topic}"
        for _ in range(ELECTIONS):
            futures = self._ask(
                what,
                topic,
                lambda: self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_SECONDS),
            )
            try:
                return {where.partition: self._answer(future) for where, future in futures.items()}
            except (KafkaException, TimeoutError) as problem:
                failure = problem
            if not _has_no_leader_yet(failure):
                break
            time.sleep(ELECTION_SECONDS)
        raise self._failed(what, failure, topic) from failure

    def _answer(self, future: Future[Value]) -> Value:
        """Wait for one answer. Raises KafkaException, and TimeoutError once there is little hope of one.

        The client connects from the moment that it is made, so the first wait counts from there. No wait is shorter
        than UNREACHABLE_SECONDS, since the answer may come from another broker than the one that refused.
        """
        asked = time.monotonic()
        started, self._opened = asked if self._opened is None else self._opened, None
        limit = ANSWER_SECONDS if self._has_answered else min(FIRST_ANSWER_SECONDS, ANSWER_SECONDS)
        while True:
            try:
                answer = future.result(LOOK_SECONDS)
            except TimeoutError:
                now = time.monotonic()
                self._say_silent(now - started, limit)
                if now - asked >= UNREACHABLE_SECONDS and (now - started >= limit or self._is_unreachable()):
                    raise
            else:
                self._has_answered = True
                return answer

    def _say_silent(self, waited: float, limit: float) -> None:
        """Say once that the cluster has not answered yet, and how long the first answer is awaited in all."""
        if waited < SILENCE_SECONDS or self._has_answered or self._said_silent:
            return
        self._said_silent = True
        LOG.warning("cluster_silent", extra={"cluster": self._servers, "gives_up_after_seconds": limit})

    def _is_unreachable(self) -> bool:
        """A broker that refuses is enough for a cluster that never answered; for others all of them must be down."""
        self._admin.poll(0)
        telling = {KafkaError._ALL_BROKERS_DOWN} if self._has_answered else UNREACHABLE
        return any(error.code() in telling for error in self._heard)

    def _ask(self, what: str, topic: str, request: Callable[[], Mapping[Key, Value]]) -> Mapping[Key, Value]:
        if NOT_RUNNING_HOST in self._servers:
            raise LocalServicesError(
                f"could not {what}: the local Kafka broker that frazil.yaml refers to is not running",
                hint="run `frazil local up`, or name your own cluster in `kafka`",
            )
        if self._opened is None:
            self._admin.poll(0)
            self._heard.clear()
        try:
            return request()
        except KafkaException as problem:
            raise self._failed(what, problem, topic) from problem

    def _failed(self, what: str, problem: KafkaException | TimeoutError, topic: str) -> BrokerError:
        self._admin.poll(0)
        errors = [each for each in problem.args if isinstance(each, KafkaError)]
        why = errors[0].str() if errors else "no answer"
        return BrokerError(
            f"the Kafka cluster at {self._servers} could not {what}: {why}{said(self._heard)}",
            hint=hint_of([*errors, *self._heard], otherwise=IS_IT_UP, topic=topic),
        )


def _numbers(described: TopicDescription) -> list[int]:
    return sorted(partition.id for partition in described.partitions)


def _is_same(one: TopicDescription, other: TopicDescription) -> bool:
    """Return whether both describe the same topic with the same partitions."""
    return str(one.topic_id) == str(other.topic_id) and _numbers(one) == _numbers(other)


def _facts(earliest: int, stable_end: int, watermark: int, leader_epoch: int | None) -> PartitionFacts:
    """The three offsets were asked for one after the other, so each may have moved on meanwhile."""
    end = max(stable_end, earliest)
    return PartitionFacts(earliest, end, leader_epoch, held_back=max(watermark - end, 0))


def _admin(settings: Mapping[str, object]) -> AdminClient:
    """Return a client. Raises SettingError if librdkafka refuses a setting, such as a missing file."""
    try:
        return AdminClient(cast("dict[str, Any]", settings))
    except KafkaException as refused:
        raise SettingError(
            f"the `kafka` settings cannot be used: {refused.args[0]}",
            hint="fix `kafka` in frazil.yaml; file paths are relative to its folder",
        ) from refused


def _has_no_leader_yet(problem: Exception) -> bool:
    """Return whether the partition's leader is elected, or the client or a broker does not know the new one (KIP-320).

    The latter also happens just after a topic was deleted and made again.
    """
    return isinstance(problem, KafkaException) and problem.args[0].code() in (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )


def _epoch(info: ListOffsetsResultInfo) -> int | None:
    epoch = info.leader_epoch
    return None if epoch is None or epoch < 0 else int(epoch)
