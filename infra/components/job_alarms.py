"""The alarms of the jobs, as values. Texts may be Terraform references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.model.cloudwatch_names import BY_RUN, LAG_SECONDS, STREAMING
from infra.components.alarms import AlarmSpec, Counted, Measured, MetricsQuery
from infra.components.dashboard import NAMESPACE, OF_A_WORKER

TABLE_FAILED = "table_failed"
"""The event that scheduling/waiting.py logs at least every 20 minutes while a table fails and others continue."""

LATE_MINUTES = 30

FAILING_TABLES = "FailingTables"
"""The metric that counts these events. It has no dimensions, so its namespace is that of the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of what is watched. `streaming`, `verify`, `maintain`: of job runs, None if there is none."""

    application_id: str
    application_name: str
    streaming: str | None
    keeper: str
    schedules: str
    log_group: str
    namespace: str
    has_table_metrics: bool
    verify: str | None = None
    maintain: str | None = None


def job_alarms(names: Names) -> Iterator[AlarmSpec]:
    if names.streaming is not None:
        yield _streaming_stopped(names, names.streaming)
        if names.has_table_metrics:
            yield _behind(names)
    yield AlarmSpec(
        word="job-run-failed",
        meaning=_job_run_failed(names),
        metric=Counted(
            NAMESPACE,
            "FailedJobs",
            {"ApplicationId": names.application_id, "ApplicationName": names.application_name},
        ),
    )
    yield AlarmSpec(
        word="table-failing",
        meaning=f"A table has failed for 40 minutes while others continue. Search the log group {names.log_group} for "
        f"{TABLE_FAILED}; `frazil status` names the table, docs/operate.md what to do.",
        metric=Counted(names.namespace, FAILING_TABLES, {}),
        minutes=20,
        times=2,
    )
    yield AlarmSpec(
        word="streaming-not-kept",
        meaning=f"The function {names.keeper} failed: it starts and replaces the streaming job run. See its log.",
        metric=Counted("AWS/Lambda", "Errors", {"FunctionName": names.keeper}),
        minutes=15,
    )
    yield AlarmSpec(
        word="schedule-dropped",
        meaning=f"A schedule of the group {names.schedules} was given up: its target refused it again and again.",
        metric=Counted("AWS/Scheduler", "InvocationDroppedCount", {"ScheduleGroup": names.schedules}),
    )


def _job_run_failed(names: Names) -> str:
    found = f"A job run failed. See why in the log group {names.log_group}; then run `frazil status`."
    if names.verify is not None:
        found = f"{found} If the run is {names.verify}, a table is not proven: run `frazil verify`."
    if names.maintain is not None:
        found = f"{found} If it is {names.maintain}, a table was not maintained: its log has the error."
    return found


def _behind(names: Names) -> AlarmSpec:
    """Return the alarm for streamed tables. If the metric is missing, another alarm says that the run has stopped."""
    return AlarmSpec(
        word="table-behind",
        meaning=f"A streamed table has lagged by more than {LATE_MINUTES} minutes for {LATE_MINUTES} minutes. The "
        "dashboard names it; `frazil status` says why, docs/operate.md what to do.",
        metric=Measured(names.namespace, LAG_SECONDS, {BY_RUN: STREAMING}),
        at_most=LATE_MINUTES * 60,
        minutes=5,
        times=LATE_MINUTES // 5,
        may_be_missing=True,
    )


def _streaming_stopped(names: Names, run: str) -> AlarmSpec:
    """Return the alarm for a streaming run without workers; the metric `RunningJobs` counts scheduled runs too."""
    return AlarmSpec(
        word="streaming-stopped",
        meaning="The streaming job run has had no worker for 20 minutes, so tables do not get new rows. "
        f"See why in the log group {names.log_group}; a table that is paused does not stop it.",
        metric=MetricsQuery(_workers_of(names.application_id, run)),
        at_least=0.5,
        minutes=5,
        times=4,
    )


def _workers_of(application_id: str, run: str) -> str:
    dimensions = OF_A_WORKER.replace(",", ", ")
    clauses = (
        "SELECT SUM(WorkerCpuAllocated)",
        f'FROM SCHEMA("{NAMESPACE}", {dimensions})',
        f"WHERE ApplicationId = '{application_id}' AND JobName = '{run}'",
    )
    return " ".join(clauses)
