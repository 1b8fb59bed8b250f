"""AWS Secrets Manager as far as the rotation asks it, and worlds in which a call dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CURRENT, PENDING, PREVIOUS = "AWSCURRENT", "AWSPENDING", "AWSPREVIOUS"


class NotThereError(Exception):
    pass


class ExistsError(Exception):
    pass


class StaleError(Exception):
    """AWSCURRENT is not where the caller says."""


class Exceptions:
    ResourceNotFoundException = NotThereError
    ResourceExistsException = ExistsError


@dataclass
class Version:
    made: int
    value: str | None = None
    stages: set[str] = field(default_factory=set)


class SecretInMemory:
    """One secret."""

    def __init__(self, name: str, tags: dict[str, str]) -> None:
        self.name, self.tags = name, tags
        self.arn = f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{name}-AbCdEf"
        self.versions: dict[str, Version] = {}

    def with_stage(self, stage: str) -> str | None:
        return next((name for name, version in self.versions.items() if stage in version.stages), None)

    def fields(self, stage: str = CURRENT) -> dict[str, str]:
        version = self.with_stage(stage)
        assert version is not None
        fields: dict[str, str] = json.loads(self.versions[version].value or "{}")
        return fields

    def begin(self, token: str) -> None:
        """What Secrets Manager does before it calls the function."""
        self.take_off(PENDING)
        self.versions[token] = Version(len(self.versions), None, {PENDING})

    def end(self) -> None:
        """What it does after the last step."""
        self.take_off(PENDING)

    def put(self, token: str, value: str, stages: list[str]) -> None:
        kept = self.versions.get(token)
        if kept is not None and kept.value is not None and kept.value != value:
            raise ExistsError(token)
        before = self.with_stage(CURRENT)
        for stage in stages:
            self.take_off(stage)
        version = self.versions.setdefault(token, Version(len(self.versions)))
        version.value = value
        version.stages |= set(stages)
        if CURRENT in stages and before not in (None, token):
            self.previous(before)

    def move(self, stage: str, to: str, instead_of: str | None) -> None:
        if self.with_stage(stage) != instead_of:
            raise StaleError(f"{stage} is not on {instead_of}")
        self.take_off(stage)
        self.versions[to].stages.add(stage)
        if stage == CURRENT and instead_of:
            self.previous(instead_of)

    def previous(self, version: str | None) -> None:
        assert version is not None
        self.take_off(PREVIOUS)
        self.versions[version].stages.add(PREVIOUS)

    def take_off(self, stage: str) -> None:
        for version in self.versions.values():
            version.stages.discard(stage)


class VaultInMemory:
    """boto3's client. `on_call` gets every call before and after it was carried out, and may raise."""

    exceptions = Exceptions
    page = 100
    """How many versions one answer lists."""
    made: Mapping[str, Any] = {}
    """When the versions of a secret were made, where not just their order matters."""

    def __init__(self, *secrets: SecretInMemory) -> None:
        self.secrets = {key: secret for secret in secrets for key in (secret.name, secret.arn)}
        self.on_call: Callable[[str], None] = lambda _: None

    def describe_secret(self, *, SecretId: str) -> dict[str, Any]:  # noqa: N803
        secret = self._of(SecretId)
        self.on_call("describe_secret")
        return {
            "ARN": secret.arn,
            "Name": secret.name,
            "Tags": [{"Key": key, "Value": value} for key, value in secret.tags.items()],
            "VersionIdsToStages": {name: sorted(each.stages) for name, each in secret.versions.items() if each.stages},
        }

    def get_secret_value(self, *, SecretId: str, **which: str) -> dict[str, Any]:  # noqa: N803
        secret = self._of(SecretId)
        self.on_call("get_secret_value")
        name = which.get("VersionId") or secret.with_stage(which.get("VersionStage", CURRENT))
        if name not in secret.versions or secret.versions[name].value is None:
            raise NotThereError(which)
        return {"SecretString": secret.versions[name].value}

    def put_secret_value(
        self,
        *,
        SecretId: str,  # noqa: N803
        ClientRequestToken: str,  # noqa: N803
        SecretString: str,  # noqa: N803
        VersionStages: list[str],  # noqa: N803
    ) -> None:
        self.on_call("before put_secret_value")
        self._of(SecretId).put(ClientRequestToken, SecretString, VersionStages)
        self.on_call("put_secret_value")

    def update_secret_version_stage(
        self,
        *,
        SecretId: str,  # noqa: N803
        VersionStage: str,  # noqa: N803
        MoveToVersionId: str,  # noqa: N803
        RemoveFromVersionId: str | None = None,  # noqa: N803
    ) -> None:
        self.on_call("before update_secret_version_stage")
        self._of(SecretId).move(VersionStage, MoveToVersionId, RemoveFromVersionId)
        self.on_call("update_secret_version_stage")

    def list_secret_version_ids(self, *, SecretId: str, **options: Any) -> dict[str, Any]:  # noqa: N803
        secret = self._of(SecretId)
        self.on_call("list_secret_version_ids")
        versions = [
            {
                "VersionId": name,
                "VersionStages": sorted(each.stages),
                "CreatedDate": self.made.get(secret.name, each.made),
            }
            for name, each in secret.versions.items()
            if each.stages or options.get("IncludeDeprecated")
        ]
        start = int(options.get("NextToken", 0))
        rest = {"NextToken": str(start + self.page)} if start + self.page < len(versions) else {}
        return {"Versions": versions[start : start + self.page], **rest}

    def _of(self, name: str) -> SecretInMemory:
        if name not in self.secrets:
            raise NotThereError(name)
        return self.secrets[name]


class CrashError(Exception):
    """The function died here."""


@dataclass
class DyingAt:
    """Lets so many calls pass, of all services together, and then dies once."""

    left: int
    happened: bool = False

    def __call__(self, what: str) -> None:
        if self.left == 0 and not self.happened:
            self.happened = True
            raise CrashError(what)
        self.left -= 1
