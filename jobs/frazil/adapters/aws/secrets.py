"""AWS Secrets Manager, for `${secret:…}`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from frazil.model.errors import ServiceError

REMEMBERED_SECONDS = 900.0


@dataclass(slots=True)
class SecretsManager:
    """Reads each secret once in 15 minutes: it may rotate. Nothing is imported or asked before the first is needed."""

    _client: Any = None
    _clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[float, str | None]] = field(default_factory=dict, repr=False)

    def read(self, name: str) -> str | None:
        """The secret's text, or None where there is no such secret. Raises ServiceError where it does not answer."""
        asked_at, text = self._known.get(name, (float("-inf"), None))
        if self._clock() - asked_at >= REMEMBERED_SECONDS:
            text = self._ask(name)
            self._known[name] = (self._clock(), text)
        return text

    def _ask(self, name: str) -> str | None:
        from botocore.exceptions import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and rarely needed
            BotoCoreError,
            ClientError,
        )

        try:
            answer = self._connected().get_secret_value(SecretId=name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise _unread(name, error) from error
        except BotoCoreError as error:
            raise _unread(name, error) from error
        text = answer.get("SecretString")
        return text if isinstance(text, str) else bytes(answer["SecretBinary"]).decode()

    def _connected(self) -> Any:
        if self._client is None:
            import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and rarely needed

            self._client = boto3.client("secretsmanager")
        return self._client


def _unread(name: str, error: Exception) -> ServiceError:
    what = f"could not read the secret {name} from AWS Secrets Manager: {error}"
    return ServiceError(what, hint="run `aws sts get-caller-identity`, and check the region and the permissions")
