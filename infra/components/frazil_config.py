"""The job's `frazil.yaml`, with references to other stacks. It names secrets and holds none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from frazil.specs.settings_keys import TABLES_FOLDER
from infra.components.kafka import Kafka
from infra.settings.model import ExistingWarehouse, PolicyKey, Snowflake
from shared import naming
from shared.accounts import key_field, secret_field

FILE = "frazil.yaml"
REFERENCE = "$${secret:"
Values = Mapping[str, "str | bool | Values"]
HEAD = "# Made by the stack `jobs`, from the settings of the environment. Secrets are given by name."


def frazil_yaml(
    kafka: Kafka,
    *,
    warehouse: str,
    database: str,
    region: str,
    catalog: Mapping[str, str],
    snowflake: Values | None = None,
    policies: Mapping[str, PolicyKey] | None = None,
) -> str:
    """Return the text, escaped for Terraform. `catalog`: further settings of the catalog's library."""
    sections: dict[str, Values] = {
        "kafka": dict(_kafka(kafka)),
        "schema_registry": dict(_registry(kafka)),
        "catalog": {"type": "glue", "warehouse": warehouse, "client.region": region, **catalog},
        **({} if snowflake is None else {"snowflake": snowflake}),
        **({"policies": _policies(policies)} if policies else {}),
    }
    lines = (HEAD, *_lines(sections), f"database: {quoted(database)}", f"tables: {TABLES_FOLDER}", "")
    return "\n".join(lines)


def snowflake_section(environment: str, account: Snowflake) -> Values:
    """Return the section `snowflake`. Its names follow from the settings, because the account may not exist yet.

    The job may read only the loader's key. The reader, which `frazil doctor` logs in as, is left out if `url` replaces
    Snowflake: it is a double, which has no Iceberg tables.
    """
    usual = naming.snowflake_name(environment)
    warehouse = account.warehouse.name if isinstance(account.warehouse, ExistingWarehouse) else usual
    return {
        "account": account.identifier,
        "database": account.database or usual,
        "schema": account.schema,
        "warehouse": warehouse,
        "loader": _login(environment, "loader"),
        **({"reader": _login(environment, "reader")} if account.url is None else {"url": account.url}),
    }


def secret(name: str, key: str) -> str:
    """Return a reference to one key of a secret, as Frazil reads it. To Terraform, `$${` is the text `${`."""
    return f"{REFERENCE}{name}#{key}}}"


def quoted(value: str | bool) -> str:
    """Return a YAML scalar, written as JSON, which is valid YAML. Secret references are not quoted."""
    if isinstance(value, str) and value.startswith(REFERENCE):
        return value
    return json.dumps(value, ensure_ascii=False)


def _lines(values: Values, indent: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {quoted(value)}"


def _login(environment: str, word: str) -> Values:
    user, key = naming.snowflake_name(environment, word), naming.snowflake_secret_name(environment, word)
    return {"user": user, "private_key": secret(key, "private_key")}


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


def _policies(keys: Mapping[str, PolicyKey]) -> Values:
    return {name: {"id": key.id, "secret": secret(key.secret, name)} for name, key in keys.items()}


def _registry(kafka: Kafka) -> Iterator[tuple[str, str]]:
    if kafka.glue_registry is not None:
        yield "type", "glue"
        yield "region", kafka.glue_registry.region
        yield "registry_name", kafka.glue_registry.registry_name
        return
    yield "url", kafka.registry_url
    if kafka.registry_credentials is not None:
        user = secret(kafka.registry_credentials, key_field("registry"))
        password = secret(kafka.registry_credentials, secret_field("registry"))
        yield "basic.auth.user.info", f"{user}:{password}"
