"""Job runs: their states, which follow the process, and their attempts, which depend on mode and retry policy.

A run is PENDING while files are fetched and RUNNING while the process lives; it ends as SUCCESS, FAILED or CANCELLED
(after CANCELLING). A BATCH run has at most `maxAttempts`; a STREAMING run is retried until `maxFailedAttemptsPerHour`
attempts have failed within an hour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from frazil.local.aws_double.emr_serverless.applications import Application
from frazil.local.aws_double.emr_serverless.attempts import TOLD_CHARACTERS, Attempt, JobFailedError, Stop, carry_out
from frazil.local.aws_double.emr_serverless.refusals import ConflictException, ResourceNotFoundException
from frazil.local.aws_double.place import DoubleFolder

ENDED = ("SUCCESS", "FAILED", "CANCELLED")
GRACE_SECONDS = {"BATCH": 15.0, "STREAMING": 120.0}
TIMEOUT_MINUTES = {"BATCH": 720, "STREAMING": 0}
FAILED_AN_HOUR = 5
BETWEEN_ATTEMPTS_SECONDS = 1.0


@dataclass(slots=True)
class JobRun:
    """A job run. `request` holds the parameters of StartJobRun."""

    id: str
    arn: str
    application: Application
    request: Mapping[str, Any]
    created_by: str
    tags: dict[str, str]
    created_at: datetime
    updated_at: datetime
    attempt_created_at: datetime
    state: str = "PENDING"
    details: str = ""
    attempt: int = 1
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stop: Stop = field(default_factory=Stop)
    asked_to_stop: threading.Event = field(default_factory=threading.Event)
    failures: list[datetime] = field(default_factory=list)
    past_attempts: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        return str(self.request.get("mode") or "BATCH")

    @property
    def is_active(self) -> bool:
        return self.state not in ENDED

    def move(self, state: str, details: str = "") -> None:
        now = datetime.now(UTC)
        self.state, self.details, self.updated_at = state, details[:TOLD_CHARACTERS], now
        if state == "RUNNING" and self.started_at is None:
            self.started_at = now
        if state in ENDED:
            self.ended_at = now

    def description(self) -> dict[str, Any]:
        """Return the run as in the response to GetJobRun. The list operations return some of these keys."""
        last = self.ended_at or datetime.now(UTC)
        given = ("name", "jobDriver", "configurationOverrides", "retryPolicy", "executionIamPolicy")
        return {name: self.request[name] for name in given if self.request.get(name) is not None} | {
            "applicationId": self.application.id,
            "jobRunId": self.id,
            "id": self.id,
            "arn": self.arn,
            "createdBy": self.created_by,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "attemptUpdatedAt": self.updated_at,
            "attemptCreatedAt": self.attempt_created_at,
            "jobCreatedAt": self.created_at,
            "executionRole": self.request["executionRoleArn"],
            "executionTimeoutMinutes": self.request.get("executionTimeoutMinutes", TIMEOUT_MINUTES[self.mode]),
            "state": self.state,
            "stateDetails": self.details,
            "releaseLabel": self.application.settings["releaseLabel"],
            "networkConfiguration": self.application.settings.get("networkConfiguration"),
            "type": self.application.engine.capitalize(),
            "mode": self.mode,
            "attempt": self.attempt,
            "tags": self.tags,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "totalExecutionDurationSeconds": int((last - (self.started_at or last)).total_seconds()),
        }


@dataclass(slots=True)
class JobRuns:
    """The job runs of one region of one account."""

    place: DoubleFolder
    region: str
    _known: dict[str, JobRun] = field(default_factory=dict)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self, application: Application, request: Mapping[str, Any], *, new_id: str, created_by: str) -> JobRun:
        """Start a run, or return the earlier run with the same client token."""
        with self._starting:
            before = self._with_token(application, request.get("clientToken"))
            if before is not None:
                _refuse_if_different(before, request)
                return before
            run = self._known[new_id] = _new(application, request, new_id, created_by)
        threading.Thread(target=self._keep, args=(run,), name=f"job-run-{new_id}", daemon=True).start()
        return run

    def get(self, application_id: str, job_run_id: str) -> JobRun:
        run = self._known.get(job_run_id)
        if run is None or run.application.id != application_id:
            raise ResourceNotFoundException(f"JobRun {job_run_id} does not exist")
        return run

    def of(self, application_id: str) -> list[JobRun]:
        """Return the runs of an application, newest first."""
        found = [run for run in self._known.values() if run.application.id == application_id]
        return sorted(found, key=lambda run: run.created_at, reverse=True)

    def with_arn(self, arn: str) -> JobRun | None:
        return next((run for run in self._known.values() if run.arn == arn), None)

    def cancel(self, run: JobRun, *, grace_seconds: float | None = None) -> None:
        if run.is_active and not run.stop.is_asked:
            run.move("CANCELLING")
            run.stop.grace_seconds = GRACE_SECONDS[run.mode] if grace_seconds is None else grace_seconds
            run.asked_to_stop.set()

    def _with_token(self, application: Application, token: object) -> JobRun | None:
        runs = self.of(application.id) if token else []
        return next((run for run in runs if run.request.get("clientToken") == token), None)

    def _keep(self, run: JobRun) -> None:
        """Carry out attempts until the run needs no further one."""
        timer = _timer(run, lambda: self.cancel(run))
        try:
            while (why := self._failure(run)) is not None and _is_tried_again(run):
                _begin_next(run, why)
            run.move(_last_state(run, why), why or "")
        finally:
            if run.is_active:
                run.move("FAILED", "The double itself failed: see its log.")
            if timer is not None:
                timer.cancel()
            if not any(other.is_active for other in self.of(run.application.id)):
                run.application.idle_since = datetime.now(UTC)

    def _failure(self, run: JobRun) -> str | None:
        """Carry out one attempt. Return why it failed, or None if it succeeded or was stopped."""
        if run.stop.is_asked:
            return None
        try:
            carry_out(self.place, self._attempt(run), run.stop, on_running=lambda: _run_on(run))
        except JobFailedError as exc:
            return None if run.stop.is_asked else str(exc)
        return None

    def _attempt(self, run: JobRun) -> Attempt:
        path = Path(run.application.id) / run.id / str(run.attempt)
        stream = f"applications/{run.application.id}/jobs/{run.id}/attempts/{run.attempt}/SPARK_DRIVER"
        return Attempt(
            request=run.request,
            application=run.application.settings,
            folder=self.place.job_runs / path,
            region=self.region,
            job_run_id=run.id,
            log_stream=stream,
        )


def _new(application: Application, request: Mapping[str, Any], new_id: str, created_by: str) -> JobRun:
    now = datetime.now(UTC)
    return JobRun(
        id=new_id,
        arn=f"{application.arn}/jobruns/{new_id}",
        application=application,
        request=request,
        created_by=created_by,
        tags=dict(request.get("tags") or {}),
        created_at=now,
        updated_at=now,
        attempt_created_at=now,
    )


def _refuse_if_different(before: JobRun, request: Mapping[str, Any]) -> None:
    if dict(before.request) != dict(request):
        raise ConflictException(f"The client token is the one of job run {before.id}, which was asked for differently.")


def _run_on(run: JobRun) -> None:
    if not run.stop.is_asked:
        run.move("RUNNING")


def _last_state(run: JobRun, why: str | None) -> str:
    if run.stop.is_asked:
        return "CANCELLED"
    return "SUCCESS" if why is None else "FAILED"


def _begin_next(run: JobRun, why: str) -> None:
    run.past_attempts[run.attempt] = run.description() | {"state": "FAILED", "stateDetails": why[:TOLD_CHARACTERS]}
    run.attempt, run.attempt_created_at = run.attempt + 1, datetime.now(UTC)
    if not run.stop.is_asked:
        run.move("PENDING")
    run.asked_to_stop.wait(BETWEEN_ATTEMPTS_SECONDS)


def _is_tried_again(run: JobRun) -> bool:
    """Count a failed attempt, and return whether the run is retried."""
    policy = run.request.get("retryPolicy") or {}
    run.failures.append(datetime.now(UTC))
    if run.mode == "BATCH":
        return run.attempt < int(policy.get("maxAttempts") or 1)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    lately = sum(failed > an_hour_ago for failed in run.failures)
    return lately < int(policy.get("maxFailedAttemptsPerHour") or FAILED_AN_HOUR)


def _timer(run: JobRun, cancel: Callable[[], None]) -> threading.Timer | None:
    minutes = int(run.request.get("executionTimeoutMinutes", TIMEOUT_MINUTES[run.mode]) or 0)
    if not minutes:
        return None
    timer = threading.Timer(minutes * 60, cancel)
    timer.daemon = True
    timer.start()
    return timer
