"""Recorded calls against the policy of the role that made them, under the reviewed table of roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from infra.permissions.of_roles import RULES, Asked, PolicyTarget

Recorded = Mapping[str, Any]
"""A line of the double's record of calls."""

FOR_EVERYBODY = {"sts:GetCallerIdentity": "AWS tells everybody who he is"}
"""Calls that take no permission, and why."""

JOB_RUNS_OF_EMR = "emr-serverless.amazonaws.com"


@dataclass(frozen=True)
class Granted:
    """One action on one ARN, with `*` and `?` as wildcards, as a statement allows it."""

    statement: str
    action: str
    resource: str
    conditions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.statement}: {self.action} on {self.resource}"


@dataclass(frozen=True)
class Needed:
    """What IAM asks for one call: an action on an ARN, and what it then knows about the request."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Account:
    """`key` is the ARN of the lake's key; `secrets` are ARNs by name, which end with letters that AWS chooses."""

    id: str
    region: str
    key: str
    secrets: Mapping[str, str]

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.id}:{resource}"

    def now(self, resource: str) -> str:
        """The ARN that a secret has now: one that was deleted and made again got other letters after its name."""
        name = resource.partition(":secret:")[2].rpartition("-")[0]
        return self.secrets.get(name, resource)


def granted_to(iam: Any, role: str) -> list[Granted]:
    """All that the role's policies allow, as IAM has them now."""
    attached = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert attached == [], f"{role} has policies beside its own: {attached}"
    names = iam.list_role_policies(RoleName=role)["PolicyNames"]
    documents = [iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names]
    return [each for document in documents for statement in document["Statement"] for each in _granted(statement)]


def needed_by(call: Recorded, account: Account) -> list[Needed]:
    """Raises KeyError for a call that was not reviewed."""
    api = f"{call['service']}:{call['operation']}"
    if api in FOR_EVERYBODY:
        return []
    rule = RULES[api]
    return [_needed(asked, call, account) for asked in rule.asked]


def refused(needs: Iterable[Needed], granted: Iterable[Granted]) -> set[Needed]:
    """What no statement allows: real AWS would answer AccessDenied."""
    every = list(granted)
    return {need for need in set(needs) if not any(covers(each, need) for each in every)}


def unused(granted: Iterable[Granted], needs: Iterable[Needed]) -> set[Granted]:
    """What no call needed."""
    every = set(needs)
    return {each for each in granted if not any(covers(each, need) for need in every)}


def covers(granted: Granted, need: Needed) -> bool:
    known = dict(need.context)
    return (
        granted.action == need.action
        and _pattern(granted.resource).fullmatch(need.resource) is not None
        and all(known.get(key) == value for key, value in granted.conditions.items())
    )


@cache
def _pattern(resource: str) -> re.Pattern[str]:
    return re.compile(re.escape(resource).replace(r"\*", ".*").replace(r"\?", "."))


def _granted(statement: Mapping[str, Any]) -> Iterator[Granted]:
    assert statement["Effect"] == "Allow", statement
    conditions = dict(statement.get("Condition", {}))
    equals: dict[str, str] = conditions.pop("StringEquals", {})
    assert conditions == {}, f"nobody taught this test what {conditions} means"
    for action in _listed(statement["Action"]):
        for resource in _listed(statement["Resource"]):
            yield Granted(statement.get("Sid", ""), action, resource, equals)


def _needed(asked: Asked, call: Recorded, account: Account) -> Needed:
    if asked.on is PolicyTarget.KEY_UNDER_S3:
        return Needed(asked.action, account.key, (("kms:ViaService", f"s3.{account.region}.amazonaws.com"),))
    if asked.on in {PolicyTarget.KEY_UNDER_SECRETS, PolicyTarget.KEY_UNDER_SNS}:
        through = f"{call['service']}.{account.region}.amazonaws.com"
        return Needed(asked.action, account.key, (("kms:ViaService", through),))
    named = call["resource"]
    if asked.on is PolicyTarget.JOB_ROLE:
        return Needed(asked.action, named["executionRoleArn"], (("iam:PassedToService", JOB_RUNS_OF_EMR),))
    return Needed(asked.action, _resource(asked.on, call, named, account))


def _resource(place: PolicyTarget | None, call: Recorded, named: Mapping[str, str], account: Account) -> str:
    """The ARN of what a call is about, or of what is above it."""
    of: Mapping[tuple[str, PolicyTarget | None], Callable[[], str]] = {
        ("s3", PolicyTarget.BUCKET): lambda: f"arn:aws:s3:::{named['Bucket']}",
        ("s3", None): lambda: f"arn:aws:s3:::{named['Bucket']}/{named['Key']}",
        ("glue", PolicyTarget.CATALOG): lambda: account.arn("glue", "catalog"),
        ("glue", PolicyTarget.DATABASE): lambda: account.arn("glue", f"database/{named['DatabaseName']}"),
        ("glue", None): lambda: account.arn("glue", _in_glue(named)),
        ("secretsmanager", None): lambda: _secret(named["SecretId"], account),
        ("logs", None): lambda: account.arn("logs", _stream(named)),
        ("emr-serverless", None): lambda: account.arn("emr-serverless", _application(named)),
        ("emr-serverless", PolicyTarget.JOB_RUNS): lambda: account.arn(
            "emr-serverless", f"{_application(named)}/jobruns/new"
        ),
        ("sns", None): lambda: named["TopicArn"],
        ("sqs", None): lambda: account.arn("sqs", named["QueueUrl"].rsplit("/", 1)[-1]),
        ("lambda", None): lambda: _function(named["FunctionName"], account),
    }
    assert (call["service"], place) in of, f"nobody taught this test what {call} is about"
    return of[call["service"], place]()


def _in_glue(named: Mapping[str, str]) -> str:
    return f"table/{named['DatabaseName']}/{named['Name']}" if "DatabaseName" in named else f"database/{named['Name']}"


def _stream(named: Mapping[str, str]) -> str:
    return f"log-group:{named['logGroupName']}:log-stream:{named['logStreamName']}"


def _application(named: Mapping[str, str]) -> str:
    application = f"/applications/{named['applicationId']}"
    return f"{application}/jobruns/{named['jobRunId']}" if "jobRunId" in named else application


def _secret(name: str, account: Account) -> str:
    return name if name.startswith("arn:") else account.secrets[name]


def _function(name: str, account: Account) -> str:
    return name if name.startswith("arn:") else account.arn("lambda", f"function:{name}")


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
