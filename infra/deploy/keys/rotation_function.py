"""A client for the Lambda function that creates and rotates keys (lambdas/rotate_keys)."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.model.errors import ServiceError
from infra.components.key_rotation import SECONDS
from shared.naming import Account

ANSWER_SECONDS = SECONDS + 15
"""Timeout of one call: longer than the function may run, so that its own error is reported."""

IDLE_SECONDS = 60
"""When an idle connection sends its first keepalive. NAT drops connections after 350 s; the default is two hours."""
IDLE_OPTION = socket.TCP_KEEPIDLE if sys.platform == "linux" else 0x10  # TCP_KEEPALIVE of macOS


class FunctionFailedError(ServiceError):
    """A step of the function failed; `error` is the class name of the function's exception."""

    def __init__(self, what: str, *, hint: str, error: str) -> None:
        super().__init__(what, hint=hint)
        self.error = error


class NotYetError(FunctionFailedError):
    """The current key does not work yet."""


@dataclass(frozen=True, slots=True)
class RotationFunction:
    """The function `name`. `client` is a boto3 Lambda client without retries."""

    name: str
    client: Any

    @property
    def log_group(self) -> str:
        return f"/aws/lambda/{self.name}"

    def first_key(self, secret: str) -> Mapping[str, str]:
        return self._asked(Step="firstKey", SecretId=secret)

    def prove_key(self, secret: str, *, at_most_seconds: float) -> Mapping[str, str]:
        """Test the current key. Raises NotYetError if it does not work within `at_most_seconds`."""
        told = self._asked(Step="proveKey", SecretId=secret, AtMostSeconds=at_most_seconds)
        if "not_yet" in told:
            raise NotYetError(f"proveKey of {secret}: {told['not_yet']}", hint=told["hint"], error="NotProvenError")
        return told

    def revoke_others(self, secret: str) -> Mapping[str, str]:
        return self._asked(Step="revokeOthers", SecretId=secret)

    def list_keys(self, owners: Mapping[Account, str]) -> Mapping[str, str]:
        """Return the API keys of these service accounts, as text by account; accounts without keys are left out."""
        return self._asked(Step="listKeys", Owners=dict(owners))

    def tell_ages(self, secrets: list[str]) -> Mapping[str, str]:
        return self._asked(Step="tellAges", Secrets=secrets)

    def _asked(self, **event: object) -> Mapping[str, str]:
        """Invoke the function. Raises FunctionFailedError if it fails, ServiceError if it cannot be invoked."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            told = self.client.invoke(FunctionName=self.name, Payload=json.dumps(event))
            answer: Mapping[str, str] = json.loads(told["Payload"].read())
        except (BotoCoreError, ClientError) as error:
            raise ServiceError(
                f"cannot invoke the function {self.name} for {event['Step']}: {error}",
                hint="run `scripts/deploy.sh create`, which creates it; `scripts/deploy.sh check` tests credentials",
            ) from error
        if "FunctionError" in told:
            raise _failed(self.log_group, event, answer)
        return answer


def rotation_function(name: str) -> RotationFunction:
    """Return the function with a client that does not retry, and keeps its connection alive while a step waits.

    botocore has a setting for keepalives, but none for when they begin: its list of socket options gets one more.
    """
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - takes half a second, and few steps need it
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

    once = Config(read_timeout=ANSWER_SECONDS, retries={"total_max_attempts": 1}, tcp_keepalive=True)
    client = boto3.client("lambda", config=once)
    client._endpoint.http_session._socket_options.append((socket.IPPROTO_TCP, IDLE_OPTION, IDLE_SECONDS))
    return RotationFunction(name, client)


def _failed(log_group: str, event: Mapping[str, object], answer: Mapping[str, str]) -> FunctionFailedError:
    """Return the function's error, with its own hint if it has one."""
    error, words = str(answer.get("errorType", "")), str(answer.get("errorMessage", ""))
    what, hint = what_and_hint(words)
    return FunctionFailedError(
        f"{event['Step']} of {event.get('SecretId', 'all secrets')}: {error}: {what}",
        hint=hint or f"read the log group {log_group}, then rerun the same command: it resumes",
        error=error,
    )


def what_and_hint(words: str) -> tuple[str, str]:
    """Split a FrazilError's text into its message and its hint; the hint is empty if absent."""
    what, _, hint = words.partition("\n\nhint: ")
    return what, hint
