"""Create topics during `create`. Terraform would need a cluster API key, which would end up in its state.

An existing topic is never changed; a different number of partitions is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from frazil.model.errors import BrokerError, SettingError
from infra.settings.model import ExternalKafka, Topic
from shared.confluent_api import KeyPair

ANSWER_SECONDS = 30
LOOK_SECONDS = 10.0
PATIENCE_SECONDS = 300.0
"""How long to wait for role bindings to reach the brokers."""


class Admin(Protocol):
    """The methods of confluent-kafka's AdminClient that are used here."""

    def list_topics(self, *, timeout: float) -> Any: ...

    def create_topics(self, new_topics: list[Any], *, request_timeout: float) -> Mapping[str, Future[None]]: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """A topic whose number of partitions differs from the settings."""

    topic: str
    found: int
    expected: int

    def __str__(self) -> str:
        more = "add partitions with `kafka-topics --alter --partitions` if the order per key does not matter"
        return f"{self.topic} has {self.found} partitions, expected {self.expected}: correct the settings, or {more}"


@dataclass(frozen=True, slots=True)
class Steps:
    """The topics to create, the existing ones, and those of them that differ from the settings."""

    make: Mapping[str, Topic]
    kept: tuple[str, ...]
    differing: tuple[Difference, ...]


def decide(wanted: Mapping[str, Topic], found: Mapping[str, int]) -> Steps:
    """Decide which topics to create; `found` maps existing topics to their numbers of partitions."""
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
    """Return the librdkafka settings for a Confluent Cloud cluster."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": manager.key,
        "sasl.password": manager.secret.reveal(),
    }


def of_external(kafka: ExternalKafka, credentials: KeyPair | None) -> dict[str, str]:
    """Return the librdkafka settings for an external Kafka.

    Raises SettingError if the cluster uses aws_msk_iam or its credentials are missing.
    """
    if kafka.msk_iam:
        raise SettingError(
            "topics of a cluster with aws_msk_iam cannot be created from here: it accepts IAM clients only in its VPC",
            hint="create them inside the VPC with `kafka-topics --create`, and remove `topics` from kafka.external",
        )
    found: dict[str, str] = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": kafka.protocol}
    if kafka.mechanism is not None:
        if credentials is None:
            raise SettingError(
                f"the secret {kafka.credentials} does not hold kafka_api_key and kafka_api_secret",
                hint="store the user and password in it under these names",
            )
        found |= {"sasl.mechanism": kafka.mechanism, "sasl.username": credentials.key}
        found |= {"sasl.password": credentials.secret.reveal()}
    return found


def connect(connection: Mapping[str, str]) -> Admin:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - load librdkafka only when needed

    return AdminClient({**connection, "socket.timeout.ms": str(ANSWER_SECONDS * 1000), "log_level": "0"})


def make_topics(
    admin: Admin,
    wanted: Mapping[str, Topic],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Steps:
    """Create the missing topics and return what was done.

    Retries for up to PATIENCE_SECONDS while permissions reach the brokers. Raises BrokerError if the cluster does not
    answer or keeps refusing.
    """
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
            hint="check that this machine can reach the brokers and that the key is valid, then rerun "
            "`scripts/deploy.sh create`",
        ) from problem
    return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}


def _refused(admin: Admin, topics: Mapping[str, Topic]) -> dict[str, str]:
    """Create topics; return those refused for lack of permission, with the broker's message.

    Raises BrokerError for any other refusal.
    """
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
                    f"the topic {name} could not be created: {error or 'the brokers did not answer'}",
                    hint="check `topics` in the settings, then rerun `scripts/deploy.sh create`",
                ) from problem
    return refused


def _configuration(topic: Topic) -> dict[str, str]:
    return {"retention.ms": str(int(topic.retention.total_seconds() * 1000))}


def _not_allowed(refused: Mapping[str, str]) -> BrokerError:
    said = "; ".join(f"{name}: {words}" for name, words in refused.items())
    return BrokerError(
        f"topics could not be created within {PATIENCE_SECONDS / 60:.0f} minutes for lack of permission: {said}",
        hint="grant the user CREATE on these topics (DeveloperManage in Confluent Cloud), then rerun the command",
    )
