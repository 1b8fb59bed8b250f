"""The two steps between the stacks `confluent` and `connectors`: keys of service accounts, then topics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

from infra.app import read_tables
from infra.confluent_api import ConfluentCloud, address_from_environment, key_from_environment
from infra.deploy.deployment import Deployment
from infra.deploy.key_secrets import read_keys
from infra.deploy.keys import Confluent, Keys, Waiting
from infra.deploy.terraform import Tell
from infra.deploy.topics import Steps, connect, make_topics, of_confluent, of_external
from infra.local.confluent_double import ConfluentDouble, Server
from infra.naming import secret_name
from infra.settings import ConfluentKafka, ExternalKafka
from infra.topics import wanted_topics
from jobs.model.errors import SettingError

NOBODY = {"CONFLUENT_CLOUD_API_KEY": "local", "CONFLUENT_CLOUD_API_SECRET": "local"}
"""The Cloud API key that the doubles on this machine take."""


def make_keys(deployment: Deployment, confluent: Mapping[str, Any], vault: Any, tell: Tell) -> int:
    """How many were made. `vault` is boto3's client of Secrets Manager."""
    with _cloud(deployment) as cloud:
        waiting = (
            Waiting(sleep=lambda _: None) if deployment.is_local else Waiting()
        )  # a key of the double works at once
        return len(Keys(deployment.environment, Confluent.of(confluent), cloud, vault, tell, waiting).make())


def delete_keys(deployment: Deployment, confluent: Mapping[str, Any], vault: Any, tell: Tell) -> int:
    """How many there were."""
    with _cloud(deployment) as cloud:
        return len(Keys(deployment.environment, Confluent.of(confluent), cloud, vault, tell).delete())


def make_wanted_topics(deployment: Deployment, confluent: Mapping[str, Any], vault: Any) -> Steps:
    """Those of the table specs and of the settings; which were made, which were there."""
    kafka = deployment.settings.kafka
    wanted = wanted_topics(kafka, read_tables(deployment.tables))
    if not wanted:
        return Steps({}, (), ())
    return make_topics(connect(_connection(deployment, kafka, confluent, vault)), wanted)


def _connection(
    deployment: Deployment, kafka: ConfluentKafka | ExternalKafka, confluent: Mapping[str, Any], vault: Any
) -> Mapping[str, str]:
    if isinstance(kafka, ExternalKafka):
        stored = {} if kafka.credentials is None else read_keys(vault, kafka.credentials)
        return of_external(kafka, stored.get("kafka"))
    if kafka.stand_in:
        return {"bootstrap.servers": confluent["bootstrap_servers"]}
    manager = secret_name(deployment.environment, "manager")
    stored = read_keys(vault, manager)
    if "kafka" not in stored:
        raise SettingError(
            f"the secret {manager} holds no API key of the cluster", hint="run `scripts/deploy.sh create` again"
        )
    return of_confluent(confluent["bootstrap_servers"], stored["kafka"])


@contextmanager
def _cloud(deployment: Deployment) -> Iterator[ConfluentCloud]:
    """Confluent Cloud's API, or for a cloud on this machine a double that lives as long as the step.

    The double forgets its keys with each step, so that every `create` on this machine makes new ones.
    """
    if not deployment.is_local:
        yield ConfluentCloud(key_from_environment(os.environ), address=address_from_environment(os.environ))
        return
    who = key_from_environment(NOBODY)
    with Server(ConfluentDouble(who), 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield ConfluentCloud(who, address=server.address)
        finally:
            server.shutdown()
