"""The Kafka cluster as the stacks see it, created here or external."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.settings import GlueSource
from infra.settings.model import ExternalKafka, ExternalRegistry
from shared.naming import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkRegion:
    """The region of Flink in an environment, which a key opens; `statements_url` is where it is tested."""

    id: str
    environment_id: str
    statements_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolders:
    """The accounts whose API keys Frazil creates, by their ids, and the endpoints on which it tests keys.

    `flink`: None if no account has a key for Flink.
    """

    kafka_rest_endpoint: str
    registry_id: str
    owners: Mapping[Account, str]
    flink: FlinkRegion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """The connection to brokers and registry. For a cluster that the stacks create, texts are Terraform references.

    `name` is the cluster's folder in the bucket: its id in Confluent Cloud. `credentials` and `registry_credentials`
    name the secrets that a job authenticates with, None without authentication; `key_holders` is None if Frazil
    creates no keys. With `glue_registry`, schemas are in AWS Glue and `registry_url` is empty.
    """

    name: str
    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None
    msk_iam: bool
    credentials: str | None
    registry_url: str
    registry_credentials: str | None
    key_holders: KeyHolders | None
    glue_registry: GlueSource | None = None


def external(settings: ExternalKafka) -> Kafka:
    """Return the connection to an existing cluster, with its existing secrets."""
    registry = settings.registry
    with_url = registry if isinstance(registry, ExternalRegistry) else ExternalRegistry("", None)
    return Kafka(
        name=settings.name,
        bootstrap_servers=settings.bootstrap_servers,
        security_protocol=settings.protocol,
        sasl_mechanism=settings.mechanism,
        msk_iam=settings.msk_iam,
        credentials=settings.credentials,
        registry_url=with_url.url,
        registry_credentials=with_url.credentials,
        key_holders=None,
        glue_registry=None if isinstance(registry, ExternalRegistry) else registry,
    )
