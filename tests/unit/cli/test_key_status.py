"""The age of each key, when it should have rotated, and when its rotation fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.adapters.aws.secret_histories import SecretsManagerHistories
from frazil.cli import keys
from frazil.key_status import KeyStatus, key_statuses
from frazil.model.errors import ServiceError
from frazil.model.secret_history import SecretHistory

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MONTHLY = {"schedule": "every 30 days", "every": 30 * DAY}


@dataclass
class SecretsManager:
    """Answers as boto3's client does."""

    described: Mapping[str, Any]
    made: Mapping[str, datetime]

    def describe_secret(self, *, SecretId: str) -> Mapping[str, Any]:  # noqa: N803 - AWS's name
        del SecretId
        return self.described

    def list_secret_version_ids(self, *, SecretId: str) -> Mapping[str, Any]:  # noqa: N803 - AWS's name
        del SecretId
        return {"Versions": [{"VersionId": version, "CreatedDate": at} for version, at in self.made.items()]}


@dataclass
class Histories:
    known: Mapping[str, SecretHistory | Exception] = field(default_factory=dict)

    def history(self, name: str) -> SecretHistory | None:
        found = self.known.get(name)
        if isinstance(found, Exception):
            raise found
        return found


def refused(code: str) -> Exception:
    from botocore.exceptions import ClientError  # noqa: PLC0415 - slow

    return ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeSecret")


def status_of(history: SecretHistory | Exception | None) -> KeyStatus:
    (found,) = key_statuses(Histories({} if history is None else {"k": history}), ["k"], now=NOW)
    return found


def test_the_age_is_that_of_the_current_version_and_rates_become_time() -> None:
    described = {
        "RotationEnabled": True,
        "RotationRules": {"ScheduleExpression": "rate(30 days)"},
        "LastRotatedDate": NOW - 2 * DAY,
        "NextRotationDate": NOW + 28 * DAY,
        "VersionIdsToStages": {"one": ["AWSPREVIOUS"], "two": ["AWSCURRENT", "AWSPENDING"]},
    }
    manager = SecretsManager(described, {"one": NOW - 32 * DAY, "two": NOW - 2 * DAY})

    history = SecretsManagerHistories(manager).history("k")

    assert history == SecretHistory(
        since=NOW - 2 * DAY, last_rotation=NOW - 2 * DAY, next_rotation=NOW + 28 * DAY, **MONTHLY
    )


@pytest.mark.parametrize(
    ("rules", "schedule", "every"),
    [
        ({"AutomaticallyAfterDays": 7}, "every 7 days", 7 * DAY),
        ({"AutomaticallyAfterDays": 1}, "every 1 day", DAY),
        ({"ScheduleExpression": "rate(4 hours)"}, "every 4 hours", 4 * HOUR),
        ({"ScheduleExpression": "cron(0 6 ? * MON *)"}, "cron(0 6 ? * MON *)", None),
        ({}, None, None),
    ],
)
def test_every_way_to_write_a_schedule_is_read(
    rules: Mapping[str, Any], schedule: str | None, every: timedelta | None
) -> None:
    described = {"RotationEnabled": True, "RotationRules": rules}

    history = SecretsManagerHistories(SecretsManager(described, {})).history("k")

    assert history is not None
    assert (history.schedule, history.every, history.since) == (schedule, every, None)


def test_a_rotation_that_is_switched_off_is_no_schedule() -> None:
    described = {"RotationEnabled": False, "RotationRules": {"AutomaticallyAfterDays": 7}, "NextRotationDate": NOW}

    history = SecretsManagerHistories(SecretsManager(described, {})).history("k")

    assert history == SecretHistory(since=None)


def test_a_version_that_is_still_pending_is_told_from_one_that_was_promoted() -> None:
    stages = {"old": ["AWSCURRENT"], "new": ["AWSPENDING"]}
    manager = SecretsManager({"VersionIdsToStages": stages}, {"old": NOW - 9 * DAY, "new": NOW - 2 * HOUR})

    history = SecretsManagerHistories(manager).history("k")

    assert history is not None
    assert (history.since, history.pending_since) == (NOW - 9 * DAY, NOW - 2 * HOUR)


@pytest.mark.parametrize(
    ("history", "state", "warning"),
    [
        (SecretHistory(NOW - 3 * DAY), "by hand", None),
        (SecretHistory(NOW - 30 * DAY - HOUR, **MONTHLY), "rotates", None),
        (SecretHistory(NOW - 32 * DAY, **MONTHLY), "in trouble", "its rotation is overdue: the schedule is every 30 d"),
        (
            SecretHistory(NOW - 9 * DAY, schedule="cron(0 6 ? * MON *)", next_rotation=NOW - 2 * DAY),
            "in trouble",
            "its rotation is overdue: the schedule is cron(0 6 ? * MON *)",
        ),
        (SecretHistory(NOW - 30 * DAY, pending_since=NOW - HOUR / 2, **MONTHLY), "rotates", None),
        (
            SecretHistory(NOW - 33 * DAY, pending_since=NOW - 3 * DAY, **MONTHLY),
            "in trouble",
            "its rotation fails: the version created at 2026-02-26T12:00:00Z never became current",
        ),
        (SecretHistory(None, **MONTHLY), "in trouble", "it has no value yet"),
        (None, "in trouble", "the secret does not exist"),
    ],
)
def test_what_calls_for_somebody(history: SecretHistory | None, state: str, warning: str | None) -> None:
    found = status_of(history)

    assert found.state == state
    assert len(found.warnings) == (warning is not None)
    assert "".join(found.warnings).startswith(warning or "")


def test_what_may_not_be_described_is_said_and_is_no_failure() -> None:
    found = status_of(ServiceError("could not describe the secret k: AccessDenied", hint="allow it"))

    assert (found.state, found.warnings) == ("unknown", ())
    assert list(keys.remarks([found])) == [
        "k: its age is unknown: could not describe the secret k: AccessDenied",
    ]


@pytest.mark.parametrize("code", ["AccessDeniedException", "DecryptionFailure"])
def test_a_refusal_by_aws_names_what_to_allow(code: str) -> None:
    class Refusing(SecretsManager):
        def describe_secret(self, *, SecretId: str) -> Mapping[str, Any]:  # noqa: N803 - AWS's name
            del SecretId
            raise refused(code)

    with pytest.raises(ServiceError) as told:
        SecretsManagerHistories(Refusing({}, {})).history("k")

    assert "secretsmanager:ListSecretVersionIds" in told.value.hint


def test_json_tells_times_as_text_and_the_schedule_in_seconds() -> None:
    told = json.loads(json.dumps(status_of(SecretHistory(NOW - DAY, next_rotation=NOW, **MONTHLY)).to_json()))

    assert told == {
        "secret": "k",
        "state": "rotates",
        "age_seconds": 86_400.0,
        "since": "2026-02-28T12:00:00Z",
        "schedule": "every 30 days",
        "last_rotation": None,
        "next_rotation": "2026-03-01T12:00:00Z",
        "pending_since": None,
        "every_seconds": 2_592_000.0,
        "warnings": [],
        "unknown": None,
    }
