"""EventBridge Scheduler: fire a schedule on request. moto stores schedules but never fires them.

    POST /_double/schedules/GROUP/NAME/fire?at=2026-12-07T07:00:00Z

calls the target as the scheduler would at that time, which is now by default: with the credentials of its role, and
with the context attributes in its input filled in. The target may be the universal target
(`arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun`) or a Lambda function. Schedules never fire at their times: on
a laptop, nothing should run that the user did not request.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore import xform_name  # type: ignore[import-untyped]
from moto.core import DEFAULT_ACCOUNT_ID
from moto.scheduler.models import scheduler_backends

from frazil.local.aws_double import clients
from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import assume

SERVICE = "scheduler.amazonaws.com"
UNIVERSAL = ":aws-sdk:"


def fire(place: DoubleFolder, *, region: str, group: str, name: str, at: str | None = None) -> dict[str, object]:
    """Call the target of a schedule as at the time `at`, and return its response."""
    schedule = scheduler_backends[DEFAULT_ACCOUNT_ID][region].get_schedule(group, name)
    target = schedule.target
    session = assume(target["RoleArn"], service=SERVICE, session_name=name)
    given = json.loads(_filled(target.get("Input") or "{}", schedule.arn, at or _now()))
    service, operation, parameters = _call(target["Arn"], given)
    client = clients.client(place, service, session=session, region=region)
    answer: dict[str, object] = getattr(client, xform_name(operation))(**_spelled(client, operation, parameters))
    for part in ("ResponseMetadata", "Payload"):  # an event that a function takes has no answer yet
        answer.pop(part, None)
    return answer


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _filled(text: str, schedule: str, at: str) -> str:
    words = {
        "schedule-arn": schedule,
        "scheduled-time": at,
        "execution-id": uuid.uuid4().hex,
        "attempt-number": "1",
    }
    for word, value in words.items():
        text = text.replace(f"<aws.scheduler.{word}>", value)
    return text


def _call(target: str, given: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    if UNIVERSAL in target:
        service, operation = target.split(UNIVERSAL)[1].split(":")
        return _boto_name(service), operation[0].upper() + operation[1:], given
    if target.split(":")[2] == "lambda":
        return "lambda", "Invoke", {"FunctionName": target, "InvocationType": "Event", "Payload": json.dumps(given)}
    raise LookupError(
        f"the double cannot fire a schedule at {target}: expected a universal target or a Lambda function"
    )


@functools.cache
def _boto_name(service: str) -> str:
    """Return boto3's name of a service that the scheduler names as the AWS SDK for Java does (`emrserverless`)."""
    known: dict[str, str] = {name.replace("-", ""): name for name in boto3.session.Session().get_available_services()}
    return known[service.lower().replace("-", "")]


def _spelled(client: Any, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters spelled as the service spells them. The scheduler accepts PascalCase for every service."""
    return dict(_as_shape(client.meta.service_model.operation_model(operation).input_shape, given))


def _as_shape(shape: Any, given: Any) -> Any:
    if isinstance(given, list):
        return [_as_shape(shape.member, one) for one in given]
    if not isinstance(given, dict):
        return given
    if shape.type_name == "map":
        return {key: _as_shape(shape.value, one) for key, one in given.items()}
    members = {name.lower(): name for name in shape.members}
    spelled = {members.get(key.lower(), key): one for key, one in given.items()}
    return {key: _as_shape(shape.members[key], one) if key in shape.members else one for key, one in spelled.items()}
