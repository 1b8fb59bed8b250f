"""Run the checks inside an EMR Serverless application, in a job run with the settings of its newest one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from frazil.adapters.aws.job_runs import EmrServerless, JobRun
from frazil.doctor.finding import Report, report_in
from frazil.model.errors import FrazilError, Misuse, ServiceError

ENDED = ("SUCCESS", "FAILED", "CANCELLED")
COMMAND = ("doctor", "--json")
NAME = "doctor"
OPTIONS = ("--config", "--tables")
"""The options of each job run's entry point (jobs/frazil/job_run.py) before the command."""

MORE_OPTIONS = ("--transforms",)
"""Those that only some job runs have."""

NOT_HANDED_ON = ("frazil-definition",)
"""Tags that are not copied: lambdas/streaming_job identifies its own job runs by this tag."""

MOST_MINUTES = 10
LOOK_SECONDS = 2.0
LOG_SECONDS = 60.0
"""How long to wait for the output after a run has ended."""


@dataclass(frozen=True, slots=True)
class Polling:
    """How to poll for a report. `say` receives progress messages."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = print


def report_from_inside(emr: EmrServerless, polling: Polling, *, token: str) -> Report:
    """Start a job run and return its report. Raises Misuse without a run to copy, ServiceError without a report."""
    like = run_to_imitate(emr.newest(), emr.application)
    polling.say(f"as the job run {like.id} ({like.name or 'no name'}), with its role {like.role}")
    job_run = emr.start(request_like(like, token=token))
    polling.say(f"job run {job_run} started")
    ended = _wait(emr, job_run, polling)
    report = _report(emr, ended, polling)
    return replace(report, place=f"application {emr.application}, job run {job_run}")


def run_to_imitate(runs: Iterable[JobRun], application: str) -> JobRun:
    """Return Frazil's newest job run, in any state. Raises Misuse if there is none."""
    found = next((run for run in runs if set(OPTIONS) <= set(run.arguments)), None)
    if found is None:
        raise Misuse(
            f"the application {application} has no Frazil job run to copy the settings from",
            hint="start one: `scripts/deploy.sh create` starts the streaming job; schedules start the others",
        )
    if found.monitoring is None:
        raise Misuse(
            f"the job run {found.id} does not log to CloudWatch, which `frazil doctor` reads the report from",
            hint="enable cloudWatchLoggingConfiguration for job runs of the application, as scripts/deploy.sh does",
        )
    return found


def request_like(run: JobRun, *, token: str) -> Mapping[str, object]:
    """Return the StartJobRun request: the same program, settings and role, with another command and name."""
    submit = {
        "entryPoint": run.entry_point,
        "entryPointArguments": [*_options(run.arguments), *COMMAND],
        "sparkSubmitParameters": run.parameters,
    }
    tags = {k: v for k, v in run.tags.items() if k not in NOT_HANDED_ON and not k.startswith("aws:")}
    return {
        "clientToken": token,
        "name": f"{run.name.removesuffix(f'-{NAME}')}-{NAME}".removeprefix("-"),
        "mode": "BATCH",
        "executionRoleArn": run.role,
        "executionTimeoutMinutes": MOST_MINUTES,
        "jobDriver": {"sparkSubmit": {name: value for name, value in submit.items() if value}},
        **({"configurationOverrides": run.overrides} if run.overrides else {}),
        **({"tags": tags} if tags else {}),
    }


def _options(arguments: tuple[str, ...]) -> list[str]:
    """Return the options before the command with their values, each once."""
    given = dict(pairwise(arguments))
    return [part for option in (*OPTIONS, *MORE_OPTIONS) if option in given for part in (option, given[option])]


def _wait(emr: EmrServerless, job_run: str, polling: Polling) -> JobRun:
    """Wait until the run has ended, and return it. Cancel the run if the wait ends for any other reason."""
    deadline, state = polling.clock() + MOST_MINUTES * 60, ""
    try:
        while polling.clock() < deadline:
            run = emr.get(job_run)
            if run.state != state:
                state = run.state
                polling.say(f"job run {job_run}: {state.lower()}")
            if state in ENDED:
                return run
            polling.sleep(LOOK_SECONDS)
    finally:
        if state not in ENDED:
            with suppress(FrazilError):
                emr.cancel(job_run)
    raise ServiceError(
        f"the job run {job_run} was still {state} after {MOST_MINUTES} min and was cancelled",
        hint="check the application's maximum capacity, its subnets' free addresses, and its job runs",
    )


def _report(emr: EmrServerless, run: JobRun, polling: Polling) -> Report:
    assert run.monitoring is not None  # noqa: S101 - copied from a run that has it
    deadline = polling.clock() + LOG_SECONDS
    polling.say(f"reading its report in the log group {run.monitoring.group}")
    while True:
        output = emr.driver_output(run)
        report = report_in(output)
        if report is not None:
            return report
        if polling.clock() > deadline:
            raise _no_report(run, output)
        polling.sleep(LOOK_SECONDS)


def _no_report(run: JobRun, output: str) -> ServiceError:
    assert run.monitoring is not None  # noqa: S101 - as above
    said = f": {run.details}" if run.details else ""
    arrived = "its output contains no report" if output else "none of its output has arrived"
    return ServiceError(
        f"the job run {run.id} ended as {run.state}{said}; in the log group {run.monitoring.group} {arrived}",
        hint=f"read its stderr there, or run `aws emr-serverless get-job-run --application-id {run.application}"
        f" --job-run-id {run.id}`; check that the deployed release has `frazil doctor`",
    )
