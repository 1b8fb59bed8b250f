"""Read and write the secrets of service accounts and of the Cloud API key, which Terraform creates empty."""

from __future__ import annotations

import json
from typing import Any, get_args

from frazil.model.errors import ServiceError
from frazil.model.secret import Secret
from shared.accounts import Part, key_field, secret_field
from shared.confluent_api import KeyPair


def read_keys(vault: Any, name: str) -> dict[Part, KeyPair]:
    """Return the keys in the secret, or {} if it is empty or does not exist.

    `vault` is a boto3 Secrets Manager client. Raises ServiceError if AWS refuses or does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        text = _current(vault, name)
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"the secret {name} cannot be read", error) from error
    return {} if text is None else _parsed(text)


def write_cloud_key(vault: Any, name: str, key: KeyPair) -> bool:
    """Store the Cloud API key as the current version; return False if the secret already holds it.

    Raises ServiceError if AWS refuses or does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    text = json.dumps({"cloud_api_key": key.key, "cloud_api_secret": key.secret.reveal()})
    try:
        if _current(vault, name) == text:
            return False
        vault.put_secret_value(SecretId=name, SecretString=text)
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"the secret {name} cannot be written", error) from error
    return True


def _current(vault: Any, name: str) -> str | None:
    """Return the current value, or None if the secret is empty or does not exist."""
    try:
        return str(vault.get_secret_value(SecretId=name, VersionStage="AWSCURRENT").get("SecretString", ""))
    except vault.exceptions.ResourceNotFoundException:
        return None


def _parsed(text: str) -> dict[Part, KeyPair]:
    """Return the parts that have both a key and a secret field; ignore any other content."""
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    return {
        part: KeyPair(str(fields[key_field(part)]), Secret(str(fields[secret_field(part)])))
        for part in get_args(Part)
        if key_field(part) in fields and secret_field(part) in fields
    }


def _refused(what: str, error: Exception) -> ServiceError:
    hint = "rerun `scripts/deploy.sh create`, which creates the secrets; `scripts/deploy.sh check` tests credentials"
    return ServiceError(f"{what}: {error}", hint=hint)
