"""The function that makes and rotates keys (lambdas/rotate_keys), invoked from here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.model.errors import ServiceError

ANSWER_SECONDS = 120
"""How long an answer may take; a step that waits is told to wait less."""


class FunctionFailedError(ServiceError):
    """The function did not do a step; `error` is the name of why, as the function calls it."""

    def __init__(self, what: str, *, hint: str, error: str) -> None:
        super().__init__(what, hint=hint)
        self.error = error


class NotYetError(FunctionFailedError):
    """The current key does not work yet."""


@dataclass(frozen=True, slots=True)
class RotationFunction:
    """`client` is boto3's of Lambda, and never asks twice by itself."""

    name: str
    client: Any

    @property
    def log_group(self) -> str:
        return f"/aws/lambda/{self.name}"

    def first_key(self, secret: str) -> Mapping[str, str]:
        return self._asked(Step="firstKey", SecretId=secret)

    def prove_key(self, secret: str, *, at_most_seconds: float) -> Mapping[str, str]:
        """Raises NotYetError where the key does not work yet, which the function does not count as its failure."""
        told = self._asked(Step="proveKey", SecretId=secret, AtMostSeconds=at_most_seconds)
        if "not_yet" in told:
            raise NotYetError(f"proveKey of {secret}: {told['not_yet']}", hint=told["hint"], error="NotProvenError")
        return told

    def revoke_others(self, secret: str) -> Mapping[str, str]:
        return self._asked(Step="revokeOthers", SecretId=secret)

    def tell_ages(self, secrets: list[str]) -> Mapping[str, str]:
        return self._asked(Step="tellAges", Secrets=secrets)

    def _asked(self, **event: object) -> Mapping[str, str]:
        """Raises FunctionFailedError with the function's own words, ServiceError where it cannot be asked."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            told = self.client.invoke(FunctionName=self.name, Payload=json.dumps(event))
            answer: Mapping[str, str] = json.loads(told["Payload"].read())
        except (BotoCoreError, ClientError) as error:
            raise ServiceError(
                f"the function {self.name} cannot be asked for {event['Step']}: {error}",
                hint="run `scripts/deploy.sh create`, which makes it; `scripts/deploy.sh check` tries who you are",
            ) from error
        if "FunctionError" in told:
            raise _failed(self.log_group, event, answer)
        return answer


def rotation_function(name: str) -> RotationFunction:
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, and few need it
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

    once = Config(read_timeout=ANSWER_SECONDS, retries={"total_max_attempts": 1})
    return RotationFunction(name, boto3.client("lambda", config=once))


def _failed(log_group: str, event: Mapping[str, object], answer: Mapping[str, str]) -> FunctionFailedError:
    """Errors of ours bring their own hint."""
    error, words = str(answer.get("errorType", "")), str(answer.get("errorMessage", ""))
    what, hint = what_and_hint(words)
    return FunctionFailedError(
        f"{event['Step']} of {event.get('SecretId', 'all secrets')}: {error}: {what}",
        hint=hint or f"read the log group {log_group}; then run the same command again: it goes on",
        error=error,
    )


def what_and_hint(words: str) -> tuple[str, str]:
    """An error of ours, as the function says it, in its two parts; the hint is empty where there is none."""
    what, _, hint = words.partition("\n\nhint: ")
    return what, hint
