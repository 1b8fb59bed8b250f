"""Job runs of EMR Serverless, and what they print into CloudWatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from frazil.model.errors import Misuse, ServiceError

DEFAULT_GROUP = "/aws/emr-serverless"
MOST_LISTED = 10
"""How many runs are searched for one of Frazil's."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The log group of a run's output, and the prefix of its streams' names."""

    group: str
    prefix: str


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job run as the service describes it. `overrides` and `tags` are returned unchanged."""

    application: str
    id: str
    name: str
    state: str
    details: str
    role: str
    entry_point: str
    arguments: tuple[str, ...]
    parameters: str
    overrides: Mapping[str, Any]
    tags: Mapping[str, str]
    monitoring: Monitoring | None


class EmrServerless:
    """One application, in the account and region of the process.

    Each method raises ServiceError if AWS refuses the request or does not answer.
    """

    def __init__(self, application: str) -> None:
        self.application = application
        self._emr, self._logs = _ask("connect", lambda: (_client("emr-serverless"), _client("logs")))
        self._settings: Mapping[str, Any] = {}

    def newest(self) -> Iterator[JobRun]:
        """Yield the runs, the newest first. Raises Misuse if there is no such application."""
        for listed in self._listed()[:MOST_LISTED]:
            yield self.get(str(listed["id"]))

    def get(self, job_run: str) -> JobRun:
        asked = {"applicationId": self.application, "jobRunId": job_run}
        described = _ask(f"describe the job run {job_run}", lambda: self._emr.get_job_run(**asked)["jobRun"])
        return _job_run(described, self._settings)

    def start(self, request: Mapping[str, Any]) -> str:
        asked = {**request, "applicationId": self.application}
        return str(_ask("start a job run", lambda: self._emr.start_job_run(**asked)["jobRunId"]))

    def cancel(self, job_run: str) -> None:
        asked = {"applicationId": self.application, "jobRunId": job_run}
        _ask(f"cancel the job run {job_run}", lambda: self._emr.cancel_job_run(**asked))

    def driver_output(self, run: JobRun) -> str:
        """Return what the run's driver has printed to stdout so far, which arrives in CloudWatch with a delay."""
        if run.monitoring is None:
            return ""
        group = run.monitoring.group
        prefix = "/".join(filter(None, (run.monitoring.prefix, f"applications/{run.application}/jobs/{run.id}")))
        return _ask(f"read the log group {group}", lambda: "\n".join(self._messages(group, prefix)))

    def _listed(self) -> list[Mapping[str, Any]]:
        def listed() -> list[Mapping[str, Any]]:
            asked = {"applicationId": self.application}
            self._settings = self._emr.get_application(**asked)["application"]
            pages = self._emr.get_paginator("list_job_runs").paginate(**asked)
            return [run for page in pages for run in page["jobRuns"]]

        runs = _ask(f"find the application {self.application}", listed)
        never = datetime.min.replace(tzinfo=UTC)
        return sorted(runs, key=lambda run: run.get("createdAt") or never, reverse=True)

    def _messages(self, group: str, prefix: str) -> Iterator[str]:
        missing = self._logs.exceptions.ResourceNotFoundException
        try:
            pages = self._logs.get_paginator("describe_log_streams").paginate(
                logGroupName=group, logStreamNamePrefix=prefix
            )
            names = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
            for name in names:
                if "SPARK_DRIVER" in name and name.rpartition("/")[2].startswith("stdout"):
                    yield from self._events(group, name)
        except missing:
            return

    def _events(self, group: str, stream: str) -> Iterator[str]:
        asked = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
        token = None
        while True:
            page = self._logs.get_log_events(**asked, **({} if token is None else {"nextToken": token}))
            yield from (event["message"].rstrip("\n") for event in page["events"])
            if page["nextForwardToken"] == token:
                return
            token = page["nextForwardToken"]


def _job_run(described: Mapping[str, Any], application: Mapping[str, Any]) -> JobRun:
    driver = described.get("jobDriver", {}).get("sparkSubmit", {})
    overrides = described.get("configurationOverrides") or {}
    monitoring = overrides.get("monitoringConfiguration") or application.get("monitoringConfiguration") or {}
    return JobRun(
        application=described["applicationId"],
        id=described["jobRunId"],
        name=described.get("name") or "",
        state=described["state"],
        details=described.get("stateDetails") or "",
        role=described["executionRole"],
        entry_point=driver.get("entryPoint", ""),
        arguments=tuple(driver.get("entryPointArguments") or ()),
        parameters=driver.get("sparkSubmitParameters") or "",
        overrides=overrides,
        tags=described.get("tags") or {},
        monitoring=_monitoring(monitoring.get("cloudWatchLoggingConfiguration") or {}),
    )


def _monitoring(described: Mapping[str, Any]) -> Monitoring | None:
    if not described.get("enabled"):
        return None
    return Monitoring(described.get("logGroupName") or DEFAULT_GROUP, described.get("logStreamNamePrefix") or "")


def _client(service: str) -> Any:
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and only this needs it
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

    return boto3.client(service, config=Config(connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 2}))


def _ask(what: str, act: Callable[[], Answer]) -> Answer:
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        return act()
    except ClientError as problem:
        if problem.response["Error"]["Code"] == "ResourceNotFoundException":
            hint = "`scripts/deploy.sh outputs` prints the id; AWS_PROFILE and AWS_REGION must select its account"
            raise Misuse(f"EMR Serverless could not {what}: {problem}", hint=hint) from problem
        raise ServiceError(f"AWS could not {what}: {problem}", hint=_hint(str(problem))) from problem
    except BotoCoreError as problem:
        hint = "set AWS_PROFILE and AWS_REGION; run `aws sts get-caller-identity`"
        raise ServiceError(f"AWS could not {what}: {problem}", hint=hint) from problem


def _hint(said: str) -> str:
    if "AccessDenied" in said:
        return (
            "required permissions: emr-serverless:GetApplication, ListJobRuns, GetJobRun, StartJobRun and CancelJobRun,"
            " iam:PassRole for the job role, logs:DescribeLogStreams and GetLogEvents"
        )
    return "run `aws sts get-caller-identity`, and check that profile and region are the application's"
