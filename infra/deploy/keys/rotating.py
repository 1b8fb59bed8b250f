"""Rotate keys now (`scripts/deploy.sh rotate`), instead of on schedule, for example when a key has leaked.

Secrets Manager runs the rotation; this step waits until the new key is the current version of the secret.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from frazil.model.errors import ServiceError, SettingError
from infra.deploy.keys.making import SLEEPING, Tell, Waiting
from infra.deploy.keys.rotation_function import FunctionFailedError, RotationFunction, what_and_hint
from infra.deploy.keys.side_by_side import side_by_side
from shared.accounts import PARTS
from shared.naming import Account

PATIENCE_SECONDS = 1800.0
LOOK_SECONDS = 5.0
"""Nine secrets then call FilterLogEvents about twice a second; the quota of many regions is five."""
MOST_ABANDONED = 5
"""A step in progress restores the label AWSPENDING after its removal; give up after this many removals."""
MOST_FAILURES = 3
"""Give up after this many failed attempts of Secrets Manager."""
THROTTLED = "ThrottlingException"
CURRENT, PENDING = "AWSCURRENT", "AWSPENDING"
ROTATOR = "snowflake/rotator"
"""The Snowflake user that sets the keys of the other users."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """The boto3 clients for Secrets Manager and CloudWatch Logs, and the rotation function."""

    vault: Any
    logs: Any
    function: RotationFunction


@dataclass(frozen=True, slots=True)
class Rotating:
    """The rotation of an environment's keys.

    `secrets` maps the words of `--secret`, such as `producer` and `snowflake/loader`, to secret names; `accounts` maps
    the service accounts to their ids. `now` returns Unix seconds, which bound the search for log events.
    """

    secrets: Mapping[str, str]
    clouds: Clouds
    tell: Tell
    accounts: Mapping[Account, str] = field(default_factory=dict)
    waiting: Waiting = SLEEPING
    now: Callable[[], float] = time.time

    def rotate(self, word: str | None, *, leaked: bool) -> int:
        """Rotate one key, or all concurrently, and return the number; `leaked` revokes all other keys afterwards.

        Raises SettingError if the word names no key, ServiceError if a rotation fails; the old key then still works.
        """
        wanted = dict(self._wanted(word))
        first = {ROTATOR: wanted.pop(ROTATOR)} if leaked and ROTATOR in wanted else {}
        for each, name in first.items():  # first: a leaked rotator key can replace the keys of the other users
            self._rotate(each, name, leaked)
        others = side_by_side([partial(self._rotate, each, name, leaked) for each, name in wanted.items()])
        if leaked and word is None:
            self._report_accounts_without_keys()
        return len(first) + len(others)

    def _report_accounts_without_keys(self) -> None:
        """Warn of every API key of the service accounts that Frazil makes no keys for."""
        owners = {account: owner for account, owner in self.accounts.items() if not PARTS[account]}
        try:
            found = self.clouds.function.list_keys(owners) if owners else {}
        except FunctionFailedError as failed:
            if failed.error != "KeyError":
                raise
            self.tell(
                "warning: keys of other accounts are not listed: the deployed function is of an earlier release; run "
                "`scripts/deploy.sh create`, which updates it, then this command again"
            )
            return
        for account, left in found.items():
            self.tell(f"warning: {account}: Frazil makes no keys for it; delete each that you do not know: {left}")

    def _wanted(self, word: str | None) -> Mapping[str, str]:
        if not self.secrets:
            raise SettingError(
                "no key to rotate: the stack secrets has no secret",
                hint="run `scripts/deploy.sh create`, which creates the keys; Frazil does not rotate the credentials "
                "of an external Kafka",
            )
        if word is None:
            return self.secrets
        if word not in self.secrets:
            raise SettingError(f"unknown key {word}", hint=f"choose one of {', '.join(sorted(self.secrets))}")
        return {word: self.secrets[word]}

    def _rotate(self, word: str, secret: str, leaked: bool) -> None:
        began = self.now()
        version = self._begin_anew(secret) if leaked else self._begin(secret)
        self.tell(f"{word}: rotating")
        self._await(word, secret, version, began)
        self.tell(f"{word}: rotated")
        if leaked:
            told = self.clouds.function.revoke_others(secret)
            self.tell(f"{word}: Frazil's other keys are revoked: {told.get('deleted') or 'there were none'}")
            if "left" in told:
                self.tell(f"warning: {word}: these were not revoked; delete each that you do not know: {told['left']}")

    def _abandon(self, secret: str) -> None:
        """Remove the AWSPENDING label from an unfinished rotation, because its key may have leaked too."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

        pending = self._version_with(PENDING, secret)
        if pending is None or pending == self._version_with(CURRENT, secret):
            return
        try:
            self.clouds.vault.update_secret_version_stage(
                SecretId=secret, VersionStage=PENDING, RemoveFromVersionId=pending
            )
        except (BotoCoreError, ClientError) as error:
            raise ServiceError(
                f"cannot cancel the rotation of {secret} that is in progress: {error}",
                hint="grant the profile secretsmanager:UpdateSecretVersionStage, then rerun the same command",
            ) from error

    def _begin(self, secret: str) -> str:
        """Start a rotation and return its version id; if one is in progress, return its pending version."""
        begun = self._ask_to_rotate(secret) or self._version_with(PENDING, secret)
        if begun is None:
            raise _still_on(secret)
        return begun

    def _begin_anew(self, secret: str) -> str:
        """Start a rotation and return its version id; never adopt a pending version, whose key may have leaked."""
        for _ in range(MOST_ABANDONED):
            self._abandon(secret)
            if (begun := self._ask_to_rotate(secret)) is not None:
                return begun
            self.waiting.sleep(LOOK_SECONDS)
        raise _still_on(secret)

    def _ask_to_rotate(self, secret: str) -> str | None:
        """Start a rotation and return its version id; None if Secrets Manager says that one is in progress."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        token = str(uuid.uuid4())
        try:
            return str(self.clouds.vault.rotate_secret(SecretId=secret, ClientRequestToken=token)["VersionId"])
        except (BotoCoreError, ClientError) as error:
            if "isn't complete" in str(error):
                return None
            raise ServiceError(
                f"{secret} cannot be rotated: {error}",
                hint="run `scripts/deploy.sh create`, which enables rotation; see docs/rotation.md",
            ) from error

    def _await(self, word: str, secret: str, version: str, began: float) -> None:
        deadline, told = self.waiting.clock() + PATIENCE_SECONDS, list[str]()
        while self._version_with(CURRENT, secret) != version:
            failures = self._failures_or(told, version, began)
            for each in failures[len(told) :]:
                self.tell(f"{word}: not yet: {each.splitlines()[0]}")
            told = failures
            if len(told) >= MOST_FAILURES or self.waiting.clock() >= deadline:
                raise _not_rotated(secret, told)
            self.waiting.sleep(LOOK_SECONDS)

    def _version_with(self, label: str, secret: str) -> str | None:
        stages = self.clouds.vault.describe_secret(SecretId=secret).get("VersionIdsToStages", {})
        return next((version for version, labels in stages.items() if label in labels), None)

    def _failures_or(self, before: list[str], version: str, began: float) -> list[str]:
        """Return the logged failures, or those of before if CloudWatch Logs throttles; the next look reads them."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        try:
            return list(self._failures(version, began))
        except ClientError as error:
            if error.response["Error"]["Code"] != THROTTLED:
                raise
            return before

    def _failures(self, version: str, began: float) -> Iterator[str]:
        """Yield the failures that the function logged for this version, oldest first."""
        pages = self.clouds.logs.get_paginator("filter_log_events").paginate(
            logGroupName=self.clouds.function.log_group, startTime=int(began * 1000)
        )
        for event in sorted((each for page in pages for each in page["events"]), key=lambda each: each["timestamp"]):
            said = _said(event["message"])
            if said.get("event") == "step_failed" and said.get("version") == version:
                yield f"{said['step']}: {said['error']}: {said['why']}"


def _said(line: str) -> Mapping[str, str]:
    """Return the fields of a JSON log line, or {} for any other line."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _still_on(secret: str) -> ServiceError:
    return ServiceError(
        f"{secret} cannot be rotated: another rotation is in progress and cannot be ended",
        hint="run the same command again in a minute; docs/rotation.md says where the function logs",
    )


def _not_rotated(secret: str, failures: list[str]) -> ServiceError:
    """Return an error with the last failure that the function logged, and its hint if it has one."""
    last = failures[-1] if failures else "the function logged no failure"
    what, hint = what_and_hint(last)
    return ServiceError(
        f"{secret} was not rotated; the previous key still works: {what}",
        hint=f"{hint or 'see docs/rotation.md'}; then rerun the same command: it resumes",
    )
