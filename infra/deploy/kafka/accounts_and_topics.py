"""Create the API keys of the service accounts and the topics, between the stacks `confluent` and `connectors`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from frazil.model.errors import SettingError
from infra.app import read_tables
from infra.deploy.deployment import Deployment
from infra.deploy.kafka.topics import Steps, connect, make_topics, of_confluent, of_external
from infra.deploy.keys.key_secrets import read_keys
from infra.deploy.keys.making import Keys, delete_keys
from infra.deploy.keys.rotation_function import RotationFunction
from infra.settings.model import ConfluentKafka, ExternalKafka
from infra.terraform.runner import Tell
from infra.wanted.grants import grants
from infra.wanted.topics import wanted_topics
from shared.confluent_api import ConfluentCloud, KeyPair, address_from_environment, key_from_environment
from shared.naming import Account, secret_name


def make_keys(
    deployment: Deployment, secrets: Mapping[Account, str], function: RotationFunction, vault: Any, tell: Tell
) -> int:
    """Create the missing API keys and return the number of accounts that got a new one.

    `secrets` maps accounts to secret names; `vault` is a boto3 Secrets Manager client.
    """
    return Keys(deployment.environment, secrets, function, vault, tell).make(_cloud_key(deployment))


def delete_all_keys(deployment: Deployment, confluent: Mapping[str, Any], tell: Tell) -> int:
    """Delete all API keys of the service accounts and return their number."""
    return delete_keys(cloud_of(deployment), confluent["service_accounts"].values(), tell)


def delete_keys_of_removed(deployment: Deployment, confluent: Mapping[str, Any], tell: Tell) -> int:
    """Delete all API keys of the service accounts that the settings no longer have, and return their number."""
    kafka, accounts = deployment.settings.kafka, confluent.get("service_accounts", {})
    if not isinstance(kafka, ConfluentKafka):
        return 0
    wanted = grants(kafka, read_tables(deployment.tables), "")
    removed = [owner for account, owner in accounts.items() if account not in wanted]
    return delete_keys(cloud_of(deployment), removed, tell) if removed else 0


def cloud_of(deployment: Deployment) -> ConfluentCloud:
    """Return a client for Confluent Cloud, or for its local double.

    Raises SettingError if the Cloud API key is missing.
    """
    variables = {**os.environ, **deployment.cloud.double_variables(deployment.folder)}
    return ConfluentCloud(_cloud_key(deployment), address=address_from_environment(variables))


def make_wanted_topics(deployment: Deployment, confluent: Mapping[str, Any], vault: Any) -> Steps:
    """Create the missing topics of the table specs and the settings; return what was created and what existed."""
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
    if kafka.login.mechanism is None:
        return {"bootstrap.servers": confluent["bootstrap_servers"]}
    manager = secret_name(deployment.environment, "manager")
    stored = read_keys(vault, manager)
    if "kafka" not in stored:
        raise SettingError(
            f"the secret {manager} holds no API key for the cluster", hint="run `scripts/deploy.sh create` again"
        )
    return of_confluent(confluent["bootstrap_servers"], stored["kafka"])


def _cloud_key(deployment: Deployment) -> KeyPair:
    return key_from_environment(deployment.cloud.confluent_variables())
