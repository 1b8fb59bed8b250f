"""Kafka, the registry and AWS refuse instead of being down: the hint says what to allow, or which password to fix."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from itertools import chain
from json import JSONDecodeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec
from confluent_kafka.schema_registry.error import SchemaRegistryError

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka import errors, message_consumer, reader, topics
from frazil.adapters.kafka.batch_consumer import refusals
from frazil.adapters.kafka.partition_consumer import NO_RECORDS, Polled
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics, consumer_settings
from frazil.adapters.registry import ConfluentRegistry
from frazil.adapters.spark import application
from frazil.model.errors import BrokerError, CatalogError, RegistryError
from frazil.model.plan import OffsetRange
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.records import OptionalFields, Records

SERVERS = {"bootstrap.servers": "broker:9092"}


class Admin:
    """Answers every request with one error, after it has reported others to the client."""

    def __init__(self, settings: dict[str, Any], *, answer: int, told: tuple[int, ...] = ()) -> None:
        self.settings = settings
        self._answer, self._told = answer, told

    def poll(self, timeout: float) -> int:
        del timeout
        for code in self._told:
            self.settings["error_cb"](KafkaError(code, f"code {code} (after 1ms in state AUTH)"))
        return len(self._told)

    def describe_topics(self, topics: object, *, request_timeout: float) -> dict[str, Future[object]]:
        del topics, request_timeout
        future: Future[object] = Future()
        future.set_exception(KafkaException(KafkaError(self._answer)))
        return {"orders": future}


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch) -> Any:
    def refused(answer: int, *told: int) -> BrokerError:
        monkeypatch.setattr(topics, "AdminClient", lambda settings: Admin(settings, answer=answer, told=told))
        with pytest.raises(BrokerError) as raised:
            KafkaTopics(SERVERS).describe("orders")
        return raised.value

    return refused


def test_a_topic_that_this_user_may_not_see_is_a_matter_of_permissions(refusal: Any) -> None:
    hint = refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED).hint

    assert hint == "grant READ and DESCRIBE on the topic orders to the `kafka` user of frazil.yaml"


def test_a_cluster_that_this_user_may_not_ask_is_a_matter_of_permissions(refusal: Any) -> None:
    assert refusal(KafkaError.CLUSTER_AUTHORIZATION_FAILED).hint.startswith("grant DESCRIBE on the cluster")


def test_a_group_that_this_user_may_not_see_is_a_matter_of_permissions(refusal: Any) -> None:
    hint = refusal(KafkaError.GROUP_AUTHORIZATION_FAILED).hint

    assert hint.startswith("grant DESCRIBE on the group frazil-reads-explicit-offsets")


def test_a_wrong_password_is_told_though_the_client_only_ran_out_of_time(refusal: Any) -> None:
    error = refusal(KafkaError._TIMED_OUT, KafkaError._AUTHENTICATION, KafkaError._AUTHENTICATION)

    assert error.hint.startswith("fix sasl.username, sasl.password")
    assert error.what.endswith(f"; code {KafkaError._AUTHENTICATION}"), "once, and without the time"


def test_a_broker_that_is_down_is_still_one_to_look_at(refusal: Any) -> None:
    assert "the cluster is up" in refusal(KafkaError._TIMED_OUT, KafkaError._TRANSPORT).hint


def test_no_client_writes_lines_of_its_own_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(topics, "AdminClient", made.append)
    KafkaTopics(SERVERS)

    assert made[0]["log_level"] == 0
    assert consumer_settings(SERVERS)["log_level"] == 0


class Consumer:
    """Hands out one message, which is an error."""

    def __init__(self, settings: object, *, code: int) -> None:
        del settings
        self._error = KafkaError(code)

    def assign(self, partitions: object) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Any]:
        del count, timeout
        return [Message("orders", 0, error=self._error)]


def test_a_task_that_may_not_read_a_topic_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = KafkaError.TOPIC_AUTHORIZATION_FAILED
    monkeypatch.setattr(message_consumer, "Consumer", lambda settings: Consumer(settings, code=forbidden))
    ten = OffsetRange("orders", 0, 0, 10, 10, max_bytes=1 << 20)

    with pytest.raises(BrokerError, match="grant READ and DESCRIBE on the topic orders"):
        plain = OptionalFields(timestamp_type=False, leader_epoch=False)
        list(chain.from_iterable(KafkaReader(SERVERS, engine="python").read([ten], plain)))


@pytest.mark.parametrize(("status", "said"), [(401, "basic.auth.user.info"), (403, "read the topics' subjects")])
def test_a_registry_that_refuses_is_not_down(status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ConfluentRegistry(RegistrySettings("http://registry:8081", {}))

    def refuse(subject: str) -> None:
        raise SchemaRegistryError(status, status * 100, f"no {subject} for you")

    monkeypatch.setattr(registry._client, "get_latest_version", refuse)

    with pytest.raises(RegistryError, match=said):
        registry.latest("orders-value")


PAGE = "Unknown Schema Registry Error: b'<html>\\n<body>not here</body></html>'"
"""What the client makes of a page in HTML."""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (SchemaRegistryError(404, None, None), "HTTP status 404"),  # type: ignore[arg-type]
        (SchemaRegistryError(404, -1, PAGE), "HTTP status 404"),
        (SchemaRegistryError(200, -1, PAGE), "HTTP status 200"),
        (JSONDecodeError("Expecting value", "<html>", 0), "no JSON"),
    ],
    ids=["a wrong path", "a web server's page", "a status of success", "success without JSON"],
)
def test_an_answer_that_no_registry_gives_is_told_as_a_matter_of_the_url(
    answer: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = ConfluentRegistry(RegistrySettings("http://registry:8081/api", {}))

    def refuse(subject: str) -> None:
        raise answer

    monkeypatch.setattr(registry._client, "get_latest_version", refuse)

    with pytest.raises(RegistryError) as refused:
        registry.latest("orders-value")

    assert refused.value.what == (
        "the schema registry at http://registry:8081/api could not look up the subject orders-value:"
        f" the answer was not one of a schema registry ({said})"
    )
    assert "`schema_registry.url`" in refused.value.hint


@pytest.mark.parametrize(("status", "hint"), [(401, "basic.auth.user.info"), (503, "that the registry is up")])
def test_a_gateway_before_the_registry_leaves_the_hint_of_its_status(
    status: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = ConfluentRegistry(RegistrySettings("http://registry:8081", {}))

    def refuse(subject: str) -> None:
        raise SchemaRegistryError(status, -1, PAGE)

    monkeypatch.setattr(registry._client, "get_latest_version", refuse)

    with pytest.raises(RegistryError, match=rf"\(HTTP status {status}\)\n") as refused:
        registry.latest("orders-value")

    assert hint in refused.value.hint


def test_brokers_that_are_down_are_not_counted() -> None:
    """librdkafka counts the brokers that it knows at the moment, which may be none: "0/2 brokers are down"."""
    heard = [KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{down}/2 brokers are down") for down in (0, 2)]

    assert errors.said(heard) == "; all brokers are down"


@pytest.mark.parametrize(
    "problem",
    [
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetTable"),
        OSError("AWS Error ACCESS_DENIED during HeadObject operation"),
    ],
    ids=["glue", "s3"],
)
def test_what_aws_denies_is_a_matter_of_permissions(problem: Exception) -> None:
    lake = IcebergLake(CatalogSettings("glue", "s3://bucket/warehouse", {}))

    def refuse(identifier: str) -> None:
        raise problem

    lake.__dict__["catalog"] = SimpleNamespace(load_table=refuse)

    with pytest.raises(CatalogError, match="grant the missing permission"):
        lake.load("lake.orders")


def test_spark_leaves_ctrl_c_to_who_handles_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    before = signal.getsignal(signal.SIGINT)

    class Stealing:
        _gateway = SimpleNamespace()

        @staticmethod
        def _ensure_initialized() -> None: ...

        def __init__(self, **_: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    monkeypatch.setattr(pyspark, "SparkContext", Stealing)
    monkeypatch.setattr(pyspark, "SparkConf", Conf)

    try:
        application._started("test", tmp_path / "spark.log", None, application.HANDS_OUT_TASKS)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


class Conf:
    def __init__(self, *, loadDefaults: bool) -> None: ...  # noqa: N803

    def setAppName(self, name: str) -> Conf:  # noqa: N802
        del name
        return self

    def setIfMissing(self, name: str, value: str) -> None: ...  # noqa: N802

    def set(self, name: str, value: str) -> None: ...

    def get(self, name: str, default: str) -> str:
        del name
        return default


RANGE, PLAIN = OffsetRange("orders", 0, 0, 5, 5, 10), OptionalFields(timestamp_type=False, leader_epoch=False)


class Refusing:
    """A consumer of which one method fails; it reads an empty partition."""

    def __init__(self, method: str) -> None:
        setattr(self, method, self._refuse)

    def _refuse(self, *_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, "not now"))

    def forget_errors(self) -> None:
        """Nothing fails."""

    def assign(self, ranges: object) -> None:
        """Nothing fails."""

    def poll(self, wanted: object, limits: object, optional: object) -> Polled:
        return Polled(NO_RECORDS)

    def position(self, wanted: object) -> int:
        return 5

    def remove(self, ranges: object) -> None:
        """Nothing fails."""

    def unassign(self) -> None:
        """Nothing fails."""


def reading(monkeypatch: pytest.MonkeyPatch, method: str) -> list[int]:
    """Read a range of five offsets without records; return where each chunk ends."""
    monkeypatch.setattr(reader, "open_consumer", lambda *_: Refusing(method))
    return [chunk.next_offset for chunks in KafkaReader(SERVERS).read([RANGE], PLAIN) for chunk in chunks]


@pytest.mark.parametrize("method", ["assign", "poll", "position"])
def test_a_refusal_of_the_client_names_the_range(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    with pytest.raises(BrokerError, match=r"orders-0: reading offsets \[0, 5\) from broker:9092 failed: not now"):
        reading(monkeypatch, method)


@pytest.mark.parametrize("method", ["remove", "unassign"])
def test_a_range_that_is_read_counts_although_the_client_refuses_to_leave_it(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    assert reading(monkeypatch, method) == [5]


class Slow(Refusing):
    """A consumer that has a record, then none for one poll, and then the partition's end."""

    def __init__(self) -> None:
        one = Records.of([0], [0], [None], [b"v"], [None], next_offset=1)
        self._polled = [Polled(one), Polled(NO_RECORDS), Polled(NO_RECORDS, partition_end=5)]

    def poll(self, wanted: object, limits: object, optional: object) -> Polled:
        return self._polled.pop(0)

    def position(self, wanted: object) -> int:
        return 1


def test_a_caller_that_is_slow_to_write_a_chunk_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(reader, "open_consumer", lambda *_: Slow())
    ends = []

    for chunk in next(reading := KafkaReader(SERVERS).read([RANGE], PLAIN)):
        ends.append(chunk.next_offset)
        clock[0] += 10 * reader.STALLED_SECONDS

    assert ends == [1, 5]
    assert next(reading, None) is None


class Refused(Refusing):
    """A consumer whose first poll returns a record and an error, and the next ones the rest, or nothing."""

    def __init__(self, code: int, *, recovers: bool) -> None:
        ends = [Polled(NO_RECORDS, partition_end=5)] if recovers else []
        one = Records.of([0], [0], [None], [b"v"], [None], next_offset=1)
        self._polled = [Polled(one, error=KafkaError(code, "not now")), *ends]

    def poll(self, wanted: object, limits: object, optional: object) -> Polled:
        return self._polled.pop(0) if self._polled else Polled(NO_RECORDS)

    def position(self, wanted: object) -> int:
        return 1


@pytest.mark.parametrize("code", [KafkaError._AUTHENTICATION, KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_an_error_of_a_connection_fails_no_range_that_goes_on(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """librdkafka reports a login that was refused while nothing was read, and logs in again with the next token."""
    monkeypatch.setattr(reader, "open_consumer", lambda *_: Refused(code, recovers=True))

    assert [chunk.next_offset for chunks in KafkaReader(SERVERS).read([RANGE], PLAIN) for chunk in chunks] == [1, 5]


def test_an_error_of_a_connection_that_lasts_is_told_with_the_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "STALLED_SECONDS", 0.01)
    monkeypatch.setattr(reader, "open_consumer", lambda *_: Refused(KafkaError._AUTHENTICATION, recovers=False))

    with pytest.raises(BrokerError, match=r"orders-0: no record arrived .* at offset 1.*; not now") as stalled:
        [chunk for chunks in KafkaReader(SERVERS).read([RANGE], PLAIN) for chunk in chunks]

    assert stalled.value.hint.startswith("fix sasl.username")


def test_another_error_fails_the_range_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reader, "open_consumer", lambda *_: Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, recovers=True)
    )

    with pytest.raises(BrokerError, match=r"orders-0: reading offsets \[0, 5\) from broker:9092 failed: not now"):
        [chunk for chunks in KafkaReader(SERVERS).read([RANGE], PLAIN) for chunk in chunks]


def test_a_refusal_of_the_native_client_is_one_of_the_client_and_a_defect_is_not() -> None:
    with pytest.raises(KafkaException, match="not now"), refusals():
        raise RuntimeError(int(KafkaError._STATE), "not now")
    with pytest.raises(RuntimeError, match="the consumer is closed"), refusals():
        raise RuntimeError("the consumer is closed")


@pytest.mark.parametrize(
    "answer",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_offsets_are_asked_again_until_the_new_leader_is_known(answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    there, answers = TopicPartition("orders", 0), [KafkaException(KafkaError(answer)), SimpleNamespace(offset=7)]

    def list_offsets(*_: object, **__: object) -> dict[TopicPartition, Future[object]]:
        future, given = Future[object](), answers.pop(0)
        future.set_exception(given) if isinstance(given, Exception) else future.set_result(given)
        return {there: future}

    monkeypatch.setattr(topics, "AdminClient", lambda _: SimpleNamespace(poll=lambda _: 0, list_offsets=list_offsets))
    monkeypatch.setattr(topics, "ELECTION_SECONDS", 0)

    offsets = KafkaTopics(SERVERS)._offsets("orders", [0], OffsetSpec.latest())

    assert (offsets[0].offset, answers) == (7, [])
