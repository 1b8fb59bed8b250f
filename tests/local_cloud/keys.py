"""Keys of a deployment as their owners use them: log in to Snowflake, and ask what a Confluent cluster lets in."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from deployed import Deployed

from frazil.model.secret import Secret
from infra.deploy.local.services import confluent_cloud, snowflake_login
from shared.confluent_api import ConfluentCloud, KeyPair
from shared.rsa_key import RsaKey
from shared.snowflake_login import SnowflakeClient, SnowflakeSession

FUNCTION = "frazil-local-rotate-keys"


@dataclass(frozen=True)
class User:
    """A user of Snowflake with one of its keys."""

    name: str
    key: RsaKey
    client: SnowflakeClient

    @property
    def fingerprint(self) -> str:
        return self.key.fingerprint

    def logged_in(self) -> AbstractContextManager[SnowflakeSession]:
        return self.client.session(self.name, self.key)


@dataclass(frozen=True)
class Keys:
    deployed: Deployed

    def of(self, secret: str) -> dict[str, str]:
        """What readers of the secret get now."""
        told = self.deployed.client("secretsmanager").get_secret_value(SecretId=secret)
        fields: dict[str, str] = json.loads(told["SecretString"])
        return fields

    def user(self, secret: str) -> User:
        fields = self.of(secret)
        client = SnowflakeClient(fields["account"], snowflake_login(self.deployed.environment).address)
        return User(fields["user"], RsaKey.of_pem(Secret(fields["private_key"])), client)

    def slots(self, user: User) -> list[str]:
        """The fingerprints that Snowflake knows of a user."""
        with user.logged_in() as session:
            slots = session.slots_of(user.name)
        return [each for each in (slots.first, slots.second) if each is not None]

    def drop(self, user: User) -> None:
        """As a human would with DROP USER."""
        request = urllib.request.Request(f"{user.client.address}/_double/users/{user.name}", method="DELETE")
        with urllib.request.urlopen(request, timeout=10):
            pass

    def works(self, account: Mapping[str, str]) -> bool:
        """Whether the cluster still knows the key that the fields hold."""
        cluster = self._variables()["CONFLUENT_CLUSTER_ID"]
        pair = KeyPair(account["kafka_api_key"], Secret(account["kafka_api_secret"]))
        cloud = ConfluentCloud(pair, address=confluent_cloud(self.deployed.environment).address)
        return cloud.is_known(pair, f"https://cluster/kafka/v3/clusters/{cluster}/topics")

    def _variables(self) -> Mapping[str, str]:
        found = self.deployed.client("lambda").get_function_configuration(FunctionName=FUNCTION)
        variables: Mapping[str, str] = found["Environment"]["Variables"]
        return variables


def ages_told(deployed: Deployed) -> list[dict[str, Any]]:
    """Every line of the metric that the function has printed."""
    logs = deployed.client("logs").get_paginator("filter_log_events")
    pages = logs.paginate(logGroupName=f"/aws/lambda/{FUNCTION}")
    lines = [event["message"] for page in pages for event in page["events"]]
    return [json.loads(line) for line in lines if line.startswith('{"_aws"')]


def rotated_secrets(deployed: Deployed) -> list[str]:
    listed = deployed.client("secretsmanager").list_secrets(MaxResults=100)["SecretList"]
    return [each["Name"] for each in listed if each.get("RotationEnabled")]
