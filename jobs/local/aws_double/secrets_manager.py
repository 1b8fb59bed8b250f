"""Secrets Manager: a read without a stage reads AWSCURRENT; a finished rotation is not one in progress.

moto answers the version that was current before the label moved; and it takes a pending version that became the
current one, which is how a rotation ends, for a rotation in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.secretsmanager.models import SecretsManagerBackend

Read = Callable[[Any, str, str | None, str | None], dict[str, object]]
Rotate = Callable[..., str]


def _reading_the_current(read: Read) -> Read:
    def get_secret_value(
        backend: Any, secret_id: str, version_id: str | None, version_stage: str | None
    ) -> dict[str, object]:
        unnamed = not version_id and not version_stage
        stage = "AWSCURRENT" if unnamed and _has_current(backend, secret_id) else version_stage
        return read(backend, secret_id, version_id or None, stage)

    return get_secret_value


def _has_current(backend: Any, secret_id: str) -> bool:
    secret = backend.secrets.get(secret_id)
    return secret is not None and any("AWSCURRENT" in one["version_stages"] for one in secret.versions.values())


def _ending_rotations(rotate: Rotate) -> Rotate:
    def rotate_secret(backend: Any, secret_id: str, *arguments: Any, **options: Any) -> str:
        secret = backend.secrets.get(secret_id)
        for version in secret.versions.values() if secret is not None else ():
            stages = version["version_stages"]
            if "AWSCURRENT" in stages and "AWSPENDING" in stages:
                stages.remove("AWSPENDING")
        return rotate(backend, secret_id, *arguments, **options)

    return rotate_secret


def teach() -> None:
    SecretsManagerBackend.get_secret_value = _reading_the_current(SecretsManagerBackend.get_secret_value)
    SecretsManagerBackend.rotate_secret = _ending_rotations(SecretsManagerBackend.rotate_secret)
