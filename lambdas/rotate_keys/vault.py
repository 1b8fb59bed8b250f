"""The versions of one secret in AWS Secrets Manager.

A version is named by the token of its rotation, holds one value for ever, and wears labels: AWSCURRENT is what readers
get, AWSPENDING what is being made, AWSPREVIOUS what was current before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frazil.model.secret import Secret

CURRENT, PENDING, PREVIOUS = "AWSCURRENT", "AWSPENDING", "AWSPREVIOUS"
MOST_OLDER = 10


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a secret, without its value. `stages` maps each version to its labels."""

    arn: str
    name: str
    tags: Mapping[str, str]
    stages: Mapping[str, frozenset[str]]

    def version_with(self, stage: str) -> str | None:
        return next((version for version, stages in self.stages.items() if stage in stages), None)


@dataclass(frozen=True, slots=True)
class Vault:
    """`client` is boto3's of Secrets Manager; `secret` the ARN or name of the secret."""

    client: Any
    secret: str

    def describe(self) -> Description:
        told = self.client.describe_secret(SecretId=self.secret)
        tags = {tag["Key"]: tag["Value"] for tag in told.get("Tags", ())}
        stages = {version: frozenset(labels) for version, labels in told.get("VersionIdsToStages", {}).items()}
        return Description(told["ARN"], told["Name"], tags, stages)

    def value(self, version: str) -> Secret | None:
        """Return the value, or None if the version has no value yet or was deleted."""
        return self._read(VersionId=version)

    def current(self) -> Secret | None:
        return self._read(VersionStage=CURRENT)

    def older(self) -> Iterator[Secret]:
        """Values without a label that are still there, the newest first."""
        unlabelled = [each for each in self._versions(IncludeDeprecated=True) if not each.get("VersionStages")]
        newest = sorted(unlabelled, key=lambda each: each["CreatedDate"], reverse=True)
        for each in newest[:MOST_OLDER]:
            value = self.value(each["VersionId"])
            if value is not None:
                yield value

    def made_at(self) -> datetime | None:
        """Return when the current value was stored, or None if there is no current value."""
        current = [each for each in self._versions() if CURRENT in each.get("VersionStages", ())]
        return current[0]["CreatedDate"] if current else None

    def keep(self, version: str, value: Secret, *, stage: str) -> bool:
        """Store a value; return False if the version holds another value already, which stays."""
        try:
            self.client.put_secret_value(
                SecretId=self.secret, ClientRequestToken=version, SecretString=value.reveal(), VersionStages=[stage]
            )
        except self.client.exceptions.ResourceExistsException:
            return False
        return True

    def promote(self, version: str, *, instead_of: str | None) -> None:
        """The one moment: readers get the new key from here on. Refused where another version is current by now."""
        moved = {"MoveToVersionId": version} | ({"RemoveFromVersionId": instead_of} if instead_of else {})
        self.client.update_secret_version_stage(SecretId=self.secret, VersionStage=CURRENT, **moved)

    def _versions(self, **options: bool) -> list[dict[str, Any]]:
        found, after = list[dict[str, Any]](), dict[str, str]()
        while True:
            page = self.client.list_secret_version_ids(SecretId=self.secret, MaxResults=100, **options, **after)
            found += page["Versions"]
            if "NextToken" not in page:
                return found
            after = {"NextToken": page["NextToken"]}

    def _read(self, **which: str) -> Secret | None:
        try:
            told = self.client.get_secret_value(SecretId=self.secret, **which)
        except self.client.exceptions.ResourceNotFoundException:
            return None
        return Secret(told["SecretString"]) if "SecretString" in told else None
