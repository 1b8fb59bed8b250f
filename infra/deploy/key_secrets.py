"""The secret of a service account in AWS Secrets Manager, which Terraform made empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from infra.accounts import Part, key_field, secret_field
from infra.confluent_api import KeyPair
from jobs.model.errors import ServiceError
from jobs.model.spec import Secret


def read_keys(vault: Any, name: str) -> dict[Part, KeyPair]:
    """What the secret holds; nothing where it is still empty, or is not there. `vault` is boto3's client.

    Raises ServiceError where AWS refuses or does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        text = vault.get_secret_value(SecretId=name, VersionStage="AWSCURRENT").get("SecretString", "")
    except vault.exceptions.ResourceNotFoundException:
        return {}
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"the secret {name} cannot be read", error) from error
    return _parsed(text)


def write_keys(vault: Any, name: str, keys: Mapping[Part, KeyPair]) -> None:
    """A new version of the secret, which is the current one at once; the last one stays as AWSPREVIOUS."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    fields: dict[str, str] = {}
    for part, pair in keys.items():
        fields |= {key_field(part): pair.key, secret_field(part): pair.secret.reveal()}
    try:
        vault.put_secret_value(SecretId=name, SecretString=json.dumps(fields))
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"the secret {name} cannot be written", error) from error


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
