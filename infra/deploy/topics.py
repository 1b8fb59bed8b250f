"""The step of `create` that makes topics: Terraform would need a key of the cluster, which then lay in its state.

A topic that exists is never changed. Where it has another number of partitions than the settings say, that is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from frazil.model.errors import BrokerError, SettingError
from infra.confluent_api import KeyPair
from infra.settings import ExternalKafka, Topic

ANSWER_SECONDS = 30
LOOK_SECONDS = 10.0
PATIENCE_SECONDS = 300.0
"""How long role bindings take to reach the brokers, and a while more."""


class Admin(Protocol):
    """What is asked of confluent-kafka's AdminClient."""

    def list_topics(self, *, timeout: float) -> Any: ...

    def create_topics(self, new_topics: list[Any], *, request_timeout: float) -> Mapping[str, Future[None]]: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """A topic that has another number of partitions than it should."""

    topic: str
    found: int
    expected: int

    def __str__(self) -> str:
        more = "add some by `kafka-topics --alter --partitions`, if the order of keys does not matter"
        return f"{self.topic} has {self.found} partitions, expected {self.expected}: correct the settings, or {more}"


@dataclass(frozen=True, slots=True)
class Steps:
    """What is to be done: topics to make, others to leave as they are."""

    make: Mapping[str, Topic]
    kept: tuple[str, ...]
    differing: tuple[Difference, ...]


def decide(wanted: Mapping[str, Topic], found: Mapping[str, int]) -> Steps:
    """`found` are numbers of partitions by topic."""
    return Steps(
        make={name: topic for name, topic in wanted.items() if name not in found},
        kept=tuple(name for name in wanted if name in found),
        differing=tuple(
            Difference(name, found[name], topic.partitions)
            for name, topic in wanted.items()
            if name in found and found[name] != topic.partitions
        ),
    )


def of_confluent(bootstrap_servers: str, manager: KeyPair) -> dict[str, str]:
    """How librdkafka connects to a cluster of Confluent Cloud."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": manager.key,
        "sasl.password": manager.secret.reveal(),
    }


def of_external(kafka: ExternalKafka, credentials: KeyPair | None) -> dict[str, str]:
    """How librdkafka connects to any other Kafka. Raises SettingError where it cannot from here."""
    if kafka.msk_iam:
        raise SettingError(
            "topics of a cluster with aws_msk_iam cannot be made from here: it lets in whom IAM knows inside its VPC",
            hint="make them there with `kafka-topics --create`, and remove `topics` from kafka.external",
        )
    found: dict[str, str] = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": kafka.protocol}
    if kafka.mechanism is not None:
        if credentials is None:
            raise SettingError(
                f"the secret {kafka.credentials} does not hold kafka_api_key and kafka_api_secret",
                hint="put user and password into it under these names",
            )
        found |= {"sasl.mechanism": kafka.mechanism, "sasl.username": credentials.key}
        found |= {"sasl.password": credentials.secret.reveal()}
    return found


def connect(connection: Mapping[str, str]) -> Admin:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - librdkafka is loaded only where it is needed

    return AdminClient({**connection, "socket.timeout.ms": str(ANSWER_SECONDS * 1000), "log_level": "0"})


def make_topics(
    admin: Admin,
    wanted: Mapping[str, Topic],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Steps:
    """What was done. Raises BrokerError where the cluster does not answer, or keeps refusing."""
    deadline = clock() + PATIENCE_SECONDS
    steps = decide(wanted, _found(admin))
    left = dict(steps.make)
    while left:
        refused = _refused(admin, left)
        left = {name: topic for name, topic in left.items() if name in refused}
        if left and clock() >= deadline:
            raise _not_allowed(refused)
        if left:
            sleep(LOOK_SECONDS)
    return steps


def _found(admin: Admin) -> dict[str, int]:
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        listed = admin.list_topics(timeout=ANSWER_SECONDS).topics
    except KafkaException as problem:
        raise BrokerError(
            f"the brokers did not list their topics within {ANSWER_SECONDS} s: {problem.args[0]}",
            hint="can this machine reach them, and is the key right? then run `scripts/deploy.sh create` again",
        ) from problem
    return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}


def _refused(admin: Admin, topics: Mapping[str, Topic]) -> dict[str, str]:
    """Make topics; those that this user may not make yet, with the broker's words. All else that is refused fails."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    new = [NewTopic(name, topic.partitions, config=_configuration(topic)) for name, topic in topics.items()]
    refused: dict[str, str] = {}
    for name, made in admin.create_topics(new, request_timeout=ANSWER_SECONDS).items():
        try:
            made.result(ANSWER_SECONDS)
        except (KafkaException, TimeoutError) as problem:
            error = problem.args[0] if problem.args else None
            code = error.code() if isinstance(error, KafkaError) else None
            if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
                refused[name] = str(error)
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerError(
                    f"the topic {name} could not be made: {error or 'the brokers did not answer'}",
                    hint="look at `topics` in the settings, and run `scripts/deploy.sh create` again",
                ) from problem
    return refused


def _configuration(topic: Topic) -> dict[str, str]:
    return {"retention.ms": str(int(topic.retention.total_seconds() * 1000))}


def _not_allowed(refused: Mapping[str, str]) -> BrokerError:
    said = "; ".join(f"{name}: {words}" for name, words in refused.items())
    return BrokerError(
        f"after {PATIENCE_SECONDS / 60:.0f} minutes topics still may not be made: {said}",
        hint="the user needs CREATE on these topics (DeveloperManage in Confluent Cloud); run it again",
    )
