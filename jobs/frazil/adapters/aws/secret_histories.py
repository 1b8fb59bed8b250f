"""AWS Secrets Manager: since when secrets have their value, and how they rotate. No value is ever asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from frazil.model.errors import ServiceError
from frazil.model.secret_history import SecretHistory
from frazil.model.spelling import plural

CURRENT, PENDING = "AWSCURRENT", "AWSPENDING"
RATE = re.compile(r"rate\((\d+) (hour|day)s?\)")
CONNECT_SECONDS, ANSWER_SECONDS = 5, 10


@dataclass(slots=True)
class SecretsManagerHistories:
    """`ports.SecretHistories`. Nothing is imported or asked before the first one is needed."""

    _client: Any = None

    def history(self, name: str) -> SecretHistory | None:
        from botocore.exceptions import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and rarely needed
            BotoCoreError,
            ClientError,
        )

        try:
            described = self._connected().describe_secret(SecretId=name)
            versions = self._connected().list_secret_version_ids(SecretId=name)["Versions"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise _undescribed(name, error) from error
        except BotoCoreError as error:
            raise _undescribed(name, error) from error
        return history_of(described, {each["VersionId"]: each.get("CreatedDate") for each in versions})

    def _connected(self) -> Any:
        if self._client is None:
            import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and rarely needed
            from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

            bounded = Config(
                connect_timeout=CONNECT_SECONDS, read_timeout=ANSWER_SECONDS, retries={"total_max_attempts": 2}
            )
            self._client = boto3.client("secretsmanager", config=bounded)
        return self._client


def history_of(described: Mapping[str, Any], made: Mapping[str, datetime | None]) -> SecretHistory:
    """Return a secret's history from the answer of `describe-secret` and the creation time of each version.

    After a rotation the label AWSPENDING may stay on what has become current: that one is done.
    """
    stages: Mapping[str, list[str]] = described.get("VersionIdsToStages") or {}
    current = next((version for version, labels in stages.items() if CURRENT in labels), None)
    pending = next((version for version, labels in stages.items() if PENDING in labels and version != current), None)
    rules = described.get("RotationRules") or {} if described.get("RotationEnabled") else {}
    schedule, every = _schedule(rules)
    return SecretHistory(
        since=None if current is None else made.get(current) or described.get("LastChangedDate"),
        schedule=schedule,
        every=every,
        last_rotation=described.get("LastRotatedDate"),
        next_rotation=described.get("NextRotationDate") if schedule else None,
        pending_since=None if pending is None else made.get(pending) or described.get("LastChangedDate"),
    )


def _schedule(rules: Mapping[str, Any]) -> tuple[str | None, timedelta | None]:
    """Return the schedule in words, and the time between two rotations if it is known."""
    expression = rules.get("ScheduleExpression")
    found = RATE.fullmatch(expression or "")
    if found:
        every = timedelta(**{f"{found[2]}s": int(found[1])})
        return f"every {plural(int(found[1]), found[2])}", every
    if expression:
        return str(expression), None
    days = rules.get("AutomaticallyAfterDays")
    return (f"every {plural(days, 'day')}", timedelta(days=days)) if days else (None, None)


def _undescribed(name: str, error: Exception) -> ServiceError:
    return ServiceError(
        f"could not describe the secret {name}: {error}",
        hint="grant secretsmanager:DescribeSecret and secretsmanager:ListSecretVersionIds to this identity",
    )
