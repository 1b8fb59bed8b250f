"""Secrets Manager: versions keep their values and are described with their labels.

Without these corrections moto returns the former version after the AWSCURRENT label has moved, overwrites the value of
a pending version (AWS keeps the first value), cannot attach the label to a first version, and reports the current time
as the creation time of every version. `secrets_rotation.py` replaces its rotation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moto.secretsmanager.exceptions import ResourceExistsException
from moto.secretsmanager.models import SecretsManagerBackend
from moto.secretsmanager.responses import SecretsManagerResponse

from frazil.local.aws_double import secrets_rotation

CURRENT = "AWSCURRENT"

Read = Callable[[Any, str, str | None, str | None], dict[str, object]]
Put = Callable[[Any, str, str, str, str, list[str]], str]
Move = Callable[[Any, str, str, str, str], tuple[str, str]]


def _reading_the_current(read: Read) -> Read:
    def get_secret_value(
        backend: Any, secret_id: str, version_id: str | None, version_stage: str | None
    ) -> dict[str, object]:
        unnamed = not version_id and not version_stage
        stage = CURRENT if unnamed and _current(backend.secrets.get(secret_id)) else version_stage
        return read(backend, secret_id, version_id or None, stage)

    return get_secret_value


def _current(secret: Any) -> str | None:
    versions = {} if secret is None else secret.versions
    return next((version for version, details in versions.items() if CURRENT in details["version_stages"]), None)


def _keeping_values(put: Put) -> Put:
    def put_secret_value(
        backend: Any,
        secret_id: str,
        secret_string: str,
        secret_binary: str,
        client_request_token: str,
        version_stages: list[str],
    ) -> str:
        secret = backend.secrets.get(secret_id)
        version = {} if secret is None else secret.versions.get(client_request_token, {})
        kept = (version.get("secret_string"), version.get("secret_binary"))
        if any(kept):
            if kept != (secret_string, secret_binary):
                words = "because that value is already in use for a version of secret"
                raise ResourceExistsException(
                    f"You can't use ClientRequestToken {client_request_token} {words} {secret.arn}."
                )
            return str(secret.to_short_dict(include_version_stages=True, version_id=client_request_token))
        return put(backend, secret_id, secret_string, secret_binary, client_request_token, version_stages)

    return put_secret_value


def _giving_the_first_label(move: Move) -> Move:
    def update_secret_version_stage(
        backend: Any, secret_id: str, version_stage: str, remove_from_version_id: str, move_to_version_id: str
    ) -> tuple[str, str]:
        secret = backend.secrets.get(secret_id)
        version = None if secret is None else secret.versions.get(move_to_version_id)
        if version_stage == CURRENT and version and not remove_from_version_id and not _current(secret):
            version["version_stages"].append(CURRENT)
            secret.set_default_version_id(move_to_version_id)
            return secret.arn, secret.name
        return move(backend, secret_id, version_stage, remove_from_version_id, move_to_version_id)

    return update_secret_version_stage


def _list_secret_version_ids(response: Any) -> str:
    """List versions; those without a label only if the request includes deprecated versions."""
    secret = response.backend.describe_secret(response._get_param("SecretId"))
    deprecated = response._get_bool_param("IncludeDeprecated", False)
    versions = [
        {"VersionId": version, "VersionStages": details["version_stages"], "CreatedDate": details["createdate"]}
        for version, details in secret.versions.items()
        if deprecated or details["version_stages"]
    ]
    return json.dumps({"ARN": secret.arn, "Name": secret.name, "Versions": versions})


def teach() -> None:
    backend = SecretsManagerBackend
    backend.get_secret_value = _reading_the_current(backend.get_secret_value)
    backend.put_secret_value = _keeping_values(backend.put_secret_value)
    backend.update_secret_version_stage = _giving_the_first_label(backend.update_secret_version_stage)
    SecretsManagerResponse.list_secret_version_ids = _list_secret_version_ids
    secrets_rotation.teach()
