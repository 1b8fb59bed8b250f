"""The HTTP API of EMR Serverless: one function per operation, looked up by the operation's name in botocore's model."""

from __future__ import annotations

import json
import secrets
import string
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from moto.core.routing import get_service_router
from moto.emrserverless import urls

from frazil.local.aws_double.emr_serverless import spark_submit
from frazil.local.aws_double.emr_serverless.applications import Application, Applications
from frazil.local.aws_double.emr_serverless.job_runs import JobRun, JobRuns
from frazil.local.aws_double.emr_serverless.refusals import (
    AccessDeniedException,
    Refusal,
    ResourceNotFoundException,
    ValidationException,
)
from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import Signature, caller_arn, read_signature

SERVICE = "emr-serverless"
PAGE = 50
ID_LETTERS = string.ascii_lowercase + string.digits
LISTS = ("states",)

HttpAnswer = tuple[int, dict[str, str], str]
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Region:
    """The applications and job runs of one region of one account."""

    account: str
    applications: Applications
    job_runs: JobRuns


@dataclass(slots=True)
class Regions:
    place: DoubleFolder
    _known: dict[tuple[str, str], Region] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def of(self, caller: Signature) -> Region:
        with self._making:
            key = (caller.account, caller.region)
            return self._known.get(key) or self._known.setdefault(key, self._new(*key))

    def _new(self, account: str, region: str) -> Region:
        arn = f"arn:aws:emr-serverless:{region}:{account}"
        return Region(account, Applications(arn), JobRuns(self.place, region))


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `given` holds the parameters of its body, query and path."""

    region: Region
    caller: Signature
    given: Given

    @property
    def application_id(self) -> str:
        return str(self.given["applicationId"])

    @property
    def job_run(self) -> JobRun:
        return self.region.job_runs.get(self.application_id, str(self.given["jobRunId"]))


def teach(place: DoubleFolder) -> None:
    """Replace moto's implementation of the service with this one."""
    regions = Regions(place)

    def emr_serverless(request: Any, full_url: str, headers: Mapping[str, str]) -> HttpAnswer:
        del full_url
        return answer(regions, request, headers)

    urls.url_paths.clear()
    urls.url_paths["{0}/.*"] = emr_serverless


def answer(regions: Regions, request: Any, headers: Mapping[str, str]) -> HttpAnswer:
    caller = read_signature(headers.get("Authorization", ""))
    if caller is None:
        return _refused(AccessDeniedException("The request is not signed."))
    operation, labels = get_service_router(SERVICE).match(request)
    given = _query(request.query_string.decode()) | json.loads(request.get_data() or b"{}") | labels
    try:
        act = OPERATIONS.get(operation.name)
        if act is None:
            raise ValidationException(f"The double does not know {operation.name}.")
        described = act(Call(regions.of(caller), caller, given))
    except Refusal as refusal:
        return _refused(refusal)
    return 200, {"Content-Type": "application/json"}, json.dumps(described, default=datetime.timestamp)


def _refused(refusal: Refusal) -> HttpAnswer:
    headers = {"Content-Type": "application/json", "x-amzn-errortype": type(refusal).__name__}
    return refusal.status, headers, json.dumps({"message": str(refusal)})


def _query(text: str) -> dict[str, Any]:
    return {name: values if name in LISTS else values[0] for name, values in parse_qs(text).items()}


def create_application(call: Call) -> Given:
    made = call.region.applications.create(call.given, new_id=_new_id())
    return {"applicationId": made.id, "name": made.settings.get("name"), "arn": made.arn}


def get_application(call: Call) -> Given:
    return {"application": call.region.applications.get(call.application_id).description()}


def list_applications(call: Call) -> Given:
    described = [one.description() for one in call.region.applications.all()]
    return _page(call, "applications", [one for one in described if _is_asked(call, one)])


def update_application(call: Call) -> Given:
    return {"application": call.region.applications.update(call.application_id, call.given).description()}


def delete_application(call: Call) -> Given:
    call.region.applications.delete(call.application_id)
    return {}


def start_application(call: Call) -> Given:
    call.region.applications.start(call.application_id)
    return {}


def stop_application(call: Call) -> Given:
    active = sum(run.is_active for run in call.region.job_runs.of(call.application_id))
    call.region.applications.stop(call.application_id, active_runs=active)
    return {}


def start_job_run(call: Call) -> Given:
    role = str(call.given["executionRoleArn"])
    if role.split(":")[4:5] != [call.region.account]:
        raise AccessDeniedException("Cross-account pass role is not allowed.")
    application = call.region.applications.get(call.application_id)
    spark_submit.read(call.given, application.settings)
    call.region.applications.start_for_job(call.application_id)
    run = call.region.job_runs.start(
        application, dict(call.given), new_id=_new_id(), created_by=caller_arn(call.caller)
    )
    return {"applicationId": application.id, "jobRunId": run.id, "arn": run.arn}


def get_job_run(call: Call) -> Given:
    run = call.job_run
    attempt = int(call.given.get("attempt") or run.attempt)
    described = run.description() if attempt == run.attempt else run.past_attempts.get(attempt)
    if described is None:
        raise ResourceNotFoundException(f"JobRun {run.id} has no attempt {attempt}")
    return {"jobRun": described}


def list_job_runs(call: Call) -> Given:
    call.region.applications.get(call.application_id)
    described = [run.description() for run in call.region.job_runs.of(call.application_id)]
    return _page(call, "jobRuns", [one for one in described if _is_asked(call, one)])


def list_job_run_attempts(call: Call) -> Given:
    run = call.job_run
    attempts = [*run.past_attempts.values(), run.description()]
    return _page(call, "jobRunAttempts", [one | {"createdAt": one["attemptCreatedAt"]} for one in attempts])


def cancel_job_run(call: Call) -> Given:
    grace = call.given.get("shutdownGracePeriodInSeconds")
    call.region.job_runs.cancel(call.job_run, grace_seconds=None if grace is None else float(grace))
    return {"applicationId": call.application_id, "jobRunId": call.job_run.id}


def list_tags_for_resource(call: Call) -> Given:
    return {"tags": _tagged(call).tags}


def tag_resource(call: Call) -> Given:
    _tagged(call).tags.update(call.given["tags"])
    return {}


def untag_resource(call: Call) -> Given:
    keys = call.given["tagKeys"]
    for key in keys if isinstance(keys, list) else [keys]:
        _tagged(call).tags.pop(key, None)
    return {}


def _tagged(call: Call) -> Application | JobRun:
    arn = str(call.given["resourceArn"])
    return call.region.job_runs.with_arn(arn) or call.region.applications.with_arn(arn)


def _is_asked(call: Call, described: Given) -> bool:
    states, mode = call.given.get("states"), call.given.get("mode")
    after, before = (_instant(call.given.get(name)) for name in ("createdAtAfter", "createdAtBefore"))
    return (
        (not states or described["state"] in states)
        and (not mode or described["mode"] == mode)
        and (after is None or described["createdAt"] > after)
        and (before is None or described["createdAt"] < before)
    )


def _instant(text: str | None) -> datetime | None:
    found = datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _page(call: Call, name: str, found: list[Any]) -> Given:
    """Return one page. The token of a page is the index of its first entry."""
    begin = int(call.given.get("nextToken") or 0)
    end = begin + int(call.given.get("maxResults") or PAGE)
    return {name: found[begin:end]} | ({"nextToken": str(end)} if end < len(found) else {})


def _new_id() -> str:
    return "".join(secrets.choice(ID_LETTERS) for _ in range(16))


OPERATIONS: Mapping[str, Callable[[Call], Given]] = {
    "CreateApplication": create_application,
    "GetApplication": get_application,
    "ListApplications": list_applications,
    "UpdateApplication": update_application,
    "DeleteApplication": delete_application,
    "StartApplication": start_application,
    "StopApplication": stop_application,
    "StartJobRun": start_job_run,
    "GetJobRun": get_job_run,
    "ListJobRuns": list_job_runs,
    "ListJobRunAttempts": list_job_run_attempts,
    "CancelJobRun": cancel_job_run,
    "ListTagsForResource": list_tags_for_resource,
    "TagResource": tag_resource,
    "UntagResource": untag_resource,
}
