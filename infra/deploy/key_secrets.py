"""Secrets in AWS Secrets Manager that Terraform made empty: of service accounts, and of the Cloud API key."""

from __future__ import annotations

import json
from typing import Any, get_args

from frazil.model.errors import ServiceError
from frazil.model.spec import Secret
from infra.accounts import Part, key_field, secret_field
from infra.confluent_api import KeyPair


def read_keys(vault: Any, name: str) -> dict[Part, KeyPair]:
    """What the secret holds; nothing where it is still empty, or is not there. `vault` is boto3's client.

    Raises ServiceError where AWS refuses or does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        text = _current(vault, name)
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"the secret {name} cannot be read", error) from error
    return {} if text is None else _parsed(text)


def write_cloud_key(vault: Any, name: str, key: KeyPair) -> bool:
    """Whether it was another one than the secret holds: then there is a new version of it, the current one at once."""
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
    """None for a secret that is still empty, or is not there."""
    try:
        return str(vault.get_secret_value(SecretId=name, VersionStage="AWSCURRENT").get("SecretString", ""))
    except vault.exceptions.ResourceNotFoundException:
        return None


def _parsed(text: str) -> dict[Part, KeyPair]:
    """The parts whose two fields are there. What else somebody stored is no key of ours."""
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
    hint = "run `scripts/deploy.sh create` again, which makes the secrets first; `scripts/deploy.sh check` tries you"
    return ServiceError(f"{what}: {error}", hint=hint)
