"""The job's `frazil.yaml`, as Terraform writes it: references to other stacks, and secrets by name alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from infra.accounts import key_field, secret_field
from infra.stacks.kafka import Kafka

FILE = "frazil.yaml"
TABLES_FOLDER = "tables"
REFERENCE = "$${secret:"
HEAD = "# Made by the stack `jobs`, from the settings of the environment. Secrets stand here by name."


def frazil_yaml(kafka: Kafka, *, warehouse: str, database: str, region: str, catalog: Mapping[str, str]) -> str:
    """The text, in which Terraform's own marks are escaped. `catalog`: further settings of the catalog's library."""
    glue = {"type": "glue", "warehouse": warehouse, "client.region": region, **catalog}
    sections: dict[str, Mapping[str, str | bool]] = {
        "kafka": dict(_kafka(kafka)),
        "schema_registry": dict(_registry(kafka)),
        "catalog": glue,
    }
    lines = [HEAD]
    for name, settings in sections.items():
        lines += [f"{name}:", *(f"  {key}: {quoted(value)}" for key, value in settings.items())]
    return "\n".join((*lines, f"database: {quoted(database)}", f"tables: {TABLES_FOLDER}", ""))


def secret(name: str, key: str) -> str:
    """What Frazil reads as one key of a secret. To Terraform, `$${` is the text `${`."""
    return f"{REFERENCE}{name}#{key}}}"


def quoted(value: str | bool) -> str:
    """A scalar of YAML, whatever is in it: JSON's are YAML's. A secret's name stands bare, seen to be one."""
    if isinstance(value, str) and value.startswith(REFERENCE):
        return value
    return json.dumps(value, ensure_ascii=False)


def _kafka(kafka: Kafka) -> Iterator[tuple[str, str | bool]]:
    yield "bootstrap.servers", kafka.bootstrap_servers
    yield "security.protocol", kafka.security_protocol
    if kafka.sasl_mechanism is not None:
        yield "sasl.mechanism", kafka.sasl_mechanism
    if kafka.msk_iam:
        yield "aws_msk_iam", True
    if kafka.credentials is not None:
        yield "sasl.username", secret(kafka.credentials, key_field("kafka"))
        yield "sasl.password", secret(kafka.credentials, secret_field("kafka"))


def _registry(kafka: Kafka) -> Iterator[tuple[str, str]]:
    yield "url", kafka.registry_url
    if kafka.registry_credentials is not None:
        user = secret(kafka.registry_credentials, key_field("registry"))
        password = secret(kafka.registry_credentials, secret_field("registry"))
        yield "basic.auth.user.info", f"{user}:{password}"
