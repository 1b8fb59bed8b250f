"""`scripts/deploy.sh rotate`: what the calendar does, now; and what to do when a key has leaked.

Secrets Manager rotates by its own call. It is waited for until the new key is the one that everybody gets.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.model.errors import ServiceError, SettingError
from infra.deploy.keys import SLEEPING, Tell, Waiting
from infra.deploy.rotation_function import RotationFunction, what_and_hint
from infra.deploy.side_by_side import side_by_side

PATIENCE_SECONDS = 1800.0
LOOK_SECONDS = 1.0
MOST_FAILURES = 3
"""After so many it will not get better by itself; Secrets Manager goes on trying for a while."""
CURRENT, PENDING = "AWSCURRENT", "AWSPENDING"
ROTATOR = "snowflake/rotator"
"""Its key sets those of the other users."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """boto3's clients of Secrets Manager and of CloudWatch Logs, and the function."""

    vault: Any
    logs: Any
    function: RotationFunction


@dataclass(frozen=True, slots=True)
class Rotating:
    """`secrets`: names by the words that people say, such as `producer` and `snowflake/loader`.

    `now` is the wall's clock, by which log events are found.
    """

    secrets: Mapping[str, str]
    clouds: Clouds
    tell: Tell
    waiting: Waiting = SLEEPING
    now: Callable[[], float] = time.time

    def rotate(self, word: str | None, *, leaked: bool) -> int:
        """All of them, or one, side by side; how many. With `leaked`, no other key works afterwards.

        Raises SettingError for a word that names none, ServiceError where one was not rotated: its old key works on.
        """
        wanted = dict(self._wanted(word))
        first = {ROTATOR: wanted.pop(ROTATOR)} if leaked and ROTATOR in wanted else {}
        for each, name in first.items():  # alone: with a rotator's key that leaked, keys of others can be replaced
            self._rotate(each, name, leaked)
        return len(first) + len(
            side_by_side([partial(self._rotate, each, name, leaked) for each, name in wanted.items()])
        )

    def _wanted(self, word: str | None) -> Mapping[str, str]:
        if not self.secrets:
            raise SettingError(
                "there is no key of ours to rotate: the stack secrets has none",
                hint="`scripts/deploy.sh create` makes them; those of a Kafka of your own are yours to rotate",
            )
        if word is None:
            return self.secrets
        if word not in self.secrets:
            raise SettingError(
                f"there is no key {word} to rotate", hint=f"the keys are {', '.join(sorted(self.secrets))}"
            )
        return {word: self.secrets[word]}

    def _rotate(self, word: str, secret: str, leaked: bool) -> None:
        began = self.now()
        if leaked:
            self._abandon(secret)
        version = self._begin(secret)
        self.tell(f"{word}: rotating")
        self._await(word, secret, version, began)
        self.tell(f"{word}: rotated")
        if leaked:
            told = self.clouds.function.revoke_others(secret)
            self.tell(f"{word}: no other key works any more; taken away: {told.get('deleted') or 'none was left'}")
            if "left" in told:
                self.tell(f"warning: {word}: remove by hand what could not be removed: {told['left']}")

    def _abandon(self, secret: str) -> None:
        """Take the label off a version that is being made: its key may be among those that leaked."""
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
                f"the rotation of {secret} that is on already cannot be ended: {error}",
                hint="you need secretsmanager:UpdateSecretVersionStage; then run the same command again",
            ) from error

    def _begin(self, secret: str) -> str:
        """The version that is to be the current one: of a rotation that was on already, the pending one."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        token = str(uuid.uuid4())
        try:
            return str(self.clouds.vault.rotate_secret(SecretId=secret, ClientRequestToken=token)["VersionId"])
        except (BotoCoreError, ClientError) as error:
            pending = self._version_with(PENDING, secret) if "isn't complete" in str(error) else None
            if pending is None:
                raise ServiceError(
                    f"{secret} cannot be rotated: {error}",
                    hint="run `scripts/deploy.sh create`, which switches rotation on; docs/rotation.md has more",
                ) from error
            return pending

    def _await(self, word: str, secret: str, version: str, began: float) -> None:
        deadline, told = self.waiting.clock() + PATIENCE_SECONDS, list[str]()
        while self._version_with(CURRENT, secret) != version:
            failures = list(self._failures(version, began))
            for each in failures[len(told) :]:
                self.tell(f"{word}: not yet: {each.splitlines()[0]}")
            told = failures
            if len(told) >= MOST_FAILURES or self.waiting.clock() >= deadline:
                raise _not_rotated(secret, told)
            self.waiting.sleep(LOOK_SECONDS)

    def _version_with(self, label: str, secret: str) -> str | None:
        stages = self.clouds.vault.describe_secret(SecretId=secret).get("VersionIdsToStages", {})
        return next((version for version, labels in stages.items() if label in labels), None)

    def _failures(self, version: str, began: float) -> Iterator[str]:
        """As the function has said them itself, in order."""
        pages = self.clouds.logs.get_paginator("filter_log_events").paginate(
            logGroupName=self.clouds.function.log_group, startTime=int(began * 1000)
        )
        for event in sorted((each for page in pages for each in page["events"]), key=lambda each: each["timestamp"]):
            said = _said(event["message"])
            if said.get("event") == "step_failed" and said.get("version") == version:
                yield f"{said['step']}: {said['error']}: {said['why']}"


def _said(line: str) -> Mapping[str, str]:
    """What the function tells is a line of JSON; what else is in its log is not."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _not_rotated(secret: str, failures: list[str]) -> ServiceError:
    """The function's own words, with its hint where it gave one."""
    last = failures[-1] if failures else "the function has said nothing"
    what, hint = what_and_hint(last)
    return ServiceError(
        f"{secret} was not rotated, and its key of before works on: {what}",
        hint=f"{hint or 'see docs/rotation.md'}; then run the same command again: it goes on",
    )
