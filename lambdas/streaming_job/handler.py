"""The one part that starts, replaces and stops the streaming job run.

Terraform invokes it whenever the job's definition changes and when the stack goes (`aws_lambda_invocation`, life cycle
CRUD), wherever Terraform runs, and a schedule invokes it to bring back a run that EMR Serverless has given up. Each
time it makes the same thing true: one run of the wanted definition, or none.

The event: `application_id`; `wanted`, a request of StartJobRun without its application (null: no run); and from
Terraform `tf.action`, of which `delete` also stops the application, since one that is started cannot be deleted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEFINITION_TAG = "frazil-definition"
ACTIVE = ("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING")
ENDING = ("CANCELLING",)
STOPPABLE = ("STARTING", "STARTED")
STOPPED = ("CREATED", "STOPPED", "TERMINATED")
LOOK_SECONDS = 3.0
GRACE_SECONDS = 120
"""How long a cancelled run may take to finish its batches."""
SPARE_SECONDS = 20.0
"""What is left of the function's time when it gives up waiting, to say so itself rather than be cut off."""


NOT_FOUND, REFUSED = "ResourceNotFoundException", "ValidationException"
"""What EMR Serverless answers for what does not exist, and for what the state of a run or an application rules out."""
DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
TRIES, PAUSE_SECONDS = 12, 5.0


class StillEndingError(Exception):
    """A run, or the application, did not come to its end in the time that the function has."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job run of this application that has not ended."""

    id: str
    state: str
    definition: str


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps to the wanted state: cancel these runs, then start one unless `kept` continues."""

    cancel: tuple[str, ...]
    kept: str | None
    start: bool


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point; what it returns is in Terraform's state and in the log."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - the tests bring their own client

    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    keeper = Keeper(
        emr=boto3.client("emr-serverless"),
        application=event["application_id"],
        wait=Waiting(deadline, time.monotonic, time.sleep),
        new_token=lambda: context.aws_request_id,
    )
    leaving = event.get("tf", {}).get("action") == "delete"
    answer = when_allowed(lambda: keeper.leave() if leaving else keeper.keep(event.get("wanted")), keeper.wait)
    print(json.dumps(answer))
    return answer


def when_allowed(act: Callable[[], dict[str, Any]], wait: Waiting) -> dict[str, Any]:
    """Try again for a minute while access is denied: it takes IAM seconds to know a role's policy everywhere."""
    for _ in range(TRIES):
        try:
            return act()
        except Exception as failed:
            if _code(failed) not in DENIED or wait.clock() >= wait.deadline:
                raise
            wait.sleep(PAUSE_SECONDS)
    return act()


def _code(failed: Exception) -> str:
    """The error code of boto3's ClientError; empty for any other exception."""
    return str(getattr(failed, "response", {}).get("Error", {}).get("Code", ""))


def definition_of(wanted: Mapping[str, Any]) -> str:
    """Return a hash of the request that a run was started with; equal requests have equal hashes."""
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:32]


def decide(definition: str | None, runs: Sequence[Run]) -> Steps:
    """Keep one run of the wanted definition; cancel all others."""
    fitting = [run.id for run in runs if run.definition == definition and run.state in ACTIVE]
    kept = min(fitting) if fitting else None
    cancel = tuple(run.id for run in runs if run.state in ACTIVE and run.id != kept)
    return Steps(cancel, kept, start=kept is None and definition is not None)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Looks again until something is so, or the time is up. The clock counts seconds."""

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def until(self, is_so: Callable[[], bool], *, otherwise: str) -> None:
        """Wait until `is_so` returns true. Raises StillEndingError with the text `otherwise` at the deadline."""
        while not is_so():
            if self.clock() >= self.deadline:
                raise StillEndingError(otherwise)
            self.sleep(LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Keeper:
    """`emr` is boto3's client of EMR Serverless."""

    emr: Any
    application: str
    wait: Waiting
    new_token: Callable[[], str]

    def keep(self, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
        """Keep one run of the wanted request; start it only when all others have ended and freed their workers."""
        definition = None if wanted is None else definition_of(wanted)
        steps = decide(definition, self.streaming_runs())
        self._cancel(steps.cancel)
        started = self._start(wanted, definition) if steps.start and wanted and definition else None
        return {"job_run_id": started or steps.kept, "started": started is not None, "cancelled": list(steps.cancel)}

    def leave(self) -> dict[str, Any]:
        """Cancel all runs, scheduled ones included, and stop the application; do nothing if it was deleted."""
        try:
            return self._leave()
        except Exception as failed:
            if _code(failed) not in {NOT_FOUND, REFUSED} or not self._is_deleted():
                raise
            return {"job_run_id": None, "started": False, "cancelled": []}

    def _leave(self) -> dict[str, Any]:
        running = tuple(each["id"] for each in self._listed() if each["state"] in ACTIVE)
        self._cancel(running)
        self._stop()
        self.wait.until(
            self._is_stopped,
            otherwise=f"Application {self.application} has not stopped in time; rerun the delete: it resumes.",
        )
        return {"job_run_id": None, "started": False, "cancelled": list(running)}

    def streaming_runs(self) -> list[Run]:
        """Return the streaming runs that have not ended."""
        return [self._run(each) for each in self._listed() if each.get("mode") == "STREAMING"]

    def _listed(self) -> list[Mapping[str, Any]]:
        """Return all runs that have not ended, of any mode."""
        asked = self.emr.get_paginator("list_job_runs")
        pages = asked.paginate(applicationId=self.application, states=[*ACTIVE, *ENDING])
        return [each for page in pages for each in page["jobRuns"]]

    def _run(self, listed: Mapping[str, Any]) -> Run:
        detail = self.emr.get_job_run(applicationId=self.application, jobRunId=listed["id"])["jobRun"]
        return Run(listed["id"], listed["state"], detail.get("tags", {}).get(DEFINITION_TAG, ""))

    def _cancel(self, runs: Sequence[str]) -> None:
        """Cancel the runs and wait until they have ended; each may finish the batches in flight."""
        for run in runs:
            self._cancel_one(run)
        self.wait.until(
            lambda: all(each["id"] not in runs and each["state"] not in ENDING for each in self._listed()),
            otherwise=f"Job runs {', '.join(runs) or 'of before'} of application {self.application} are still ending; "
            "rerun the command: it resumes.",
        )

    def _cancel_one(self, run: str) -> None:
        """EMR Serverless refuses to cancel a run that has ended since it was listed."""
        try:
            self.emr.cancel_job_run(
                applicationId=self.application, jobRunId=run, shutdownGracePeriodInSeconds=GRACE_SECONDS
            )
        except Exception as refused:
            runs_on = any(each["id"] == run and each["state"] in ACTIVE for each in self._listed())
            if _code(refused) not in {NOT_FOUND, REFUSED} or runs_on:
                raise

    def _start(self, wanted: Mapping[str, Any], definition: str) -> str:
        tags = {**wanted.get("tags", {}), DEFINITION_TAG: definition}
        request = {**wanted, "tags": tags, "applicationId": self.application, "clientToken": self.new_token()}
        return str(self.emr.start_job_run(**request)["jobRunId"])

    def _stop(self) -> None:
        """EMR Serverless refuses to stop an application that is not started: it stops by itself when idle."""
        if self._state() not in STOPPABLE:
            return
        try:
            self.emr.stop_application(applicationId=self.application)
        except Exception as refused:
            if _code(refused) != REFUSED or self._state() in STOPPABLE:
                raise

    def _is_deleted(self) -> bool:
        try:
            return self._state() == "TERMINATED"
        except Exception as failed:
            if _code(failed) != NOT_FOUND:
                raise
            return True

    def _is_stopped(self) -> bool:
        return self._state() in STOPPED

    def _state(self) -> str:
        return str(self.emr.get_application(applicationId=self.application)["application"]["state"])
