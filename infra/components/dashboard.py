"""The CloudWatch dashboard of the jobs, as values. Texts may be Terraform references."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.model.cloudwatch_names import (
    BY_TABLE,
    DEAD_LETTERS,
    DELETE_FILES,
    FRESHNESS_SECONDS,
    LAG_SECONDS,
    ROWS_ADDED,
    SMALL_FILES,
)

Widget = Mapping[str, Any]

NAMESPACE = "AWS/EMRServerless"
STATES = ("RunningJobs", "PendingJobs", "ScheduledJobs", "SuccessJobs", "FailedJobs", "CancelledJobs")
OF_A_WORKER = "ApplicationId,ApplicationName,CapacityAllocationType,JobId,JobName,WorkerType"
"""The dimensions of what each worker uses; a run's id is known when it runs."""

OF_TABLES = (
    ("Lag of tables, s", LAG_SECONDS, "Maximum"),
    ("Freshness of batches, s", FRESHNESS_SECONDS, "Maximum"),
    ("Rows added", ROWS_ADDED, "Sum"),
    ("Dead letters", DEAD_LETTERS, "Sum"),
    ("Small files", SMALL_FILES, "Maximum"),
    ("Files of deletes", DELETE_FILES, "Maximum"),
)
"""The title, the metric and the statistic of each widget with a line for each table."""

WIDTH = 12
HEIGHT = 6
WORTH_SEEING = r"/(?i)( epoch |warning|error|failed|refused)/ and @message not like /_aws/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The resources that the dashboard shows."""

    region: str
    application_id: str
    application_name: str
    log_group: str
    namespace: str | None
    """Where metrics of tables are, None if there are none."""

    function_name: str
    schedule_group: str
    alarm_arns: Sequence[str]


def body(watched: Watched) -> str:
    """Return the dashboard's JSON for CloudWatch, with two widgets a row."""
    widgets = [
        _alarms(watched),
        _states(watched),
        *(() if watched.namespace is None else (_table(watched, watched.namespace, *each) for each in OF_TABLES)),
        _workers(watched, "vCPU", "WorkerCpuAllocated", "WorkerCpuUsed"),
        _workers(watched, "Memory, GB", "WorkerMemoryAllocated", "WorkerMemoryUsed"),
        _counts(watched, "Who keeps the streaming run", "AWS/Lambda", ("Invocations", "Errors"), _function(watched)),
        _counts(watched, "Schedules", "AWS/Scheduler", ("InvocationAttemptCount", "TargetErrorCount"), _group(watched)),
        _log(watched),
    ]
    return json.dumps({"widgets": [_placed(widget, number) for number, widget in enumerate(widgets)]})


def _placed(widget: Widget, number: int) -> Widget:
    place = {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "width": WIDTH, "height": HEIGHT}
    return {**place, **widget}


def _alarms(watched: Watched) -> Widget:
    return {"type": "alarm", "properties": {"title": "Alarms", "alarms": list(watched.alarm_arns)}}


def _states(watched: Watched) -> Widget:
    of_application = ["ApplicationId", watched.application_id, "ApplicationName", watched.application_name]
    return _graph(watched, "Job runs by state", [[NAMESPACE, state, *of_application] for state in STATES], "Maximum")


def _table(watched: Watched, namespace: str, title: str, name: str, statistic: str) -> Widget:
    """Return the widget of a metric with a line for each table. A namespace with other signs needs the quotes."""
    search = f"SEARCH('{{\"{namespace}\",{BY_TABLE}}} MetricName=\"{name}\"', '{statistic}', 60)"
    return _graph(watched, title, [[{"expression": search, "id": "tables"}]], statistic)


def _workers(watched: Watched, title: str, *names: str) -> Widget:
    """Return the widget of all workers of all runs: the billed resources, and how much of them is used."""
    series = [
        [{"expression": f"SUM({_search(watched, name)})", "label": name, "id": f"e{number}"}]
        for number, name in enumerate(names)
    ]
    return _graph(watched, title, series, "Average")


def _search(watched: Watched, name: str) -> str:
    wanted = f'{{{NAMESPACE},{OF_A_WORKER}}} MetricName="{name}" ApplicationId="{watched.application_id}"'
    return f"SEARCH('{wanted}', 'Average', 60)"


def _counts(watched: Watched, title: str, namespace: str, names: Sequence[str], dimension: tuple[str, str]) -> Widget:
    return _graph(watched, title, [[namespace, name, *dimension] for name in names], "Sum")


def _function(watched: Watched) -> tuple[str, str]:
    return "FunctionName", watched.function_name


def _group(watched: Watched) -> tuple[str, str]:
    return "ScheduleGroup", watched.schedule_group


def _graph(watched: Watched, title: str, series: Sequence[Sequence[Any]], statistic: str) -> Widget:
    properties = {"title": title, "region": watched.region, "period": 60, "stat": statistic, "metrics": series}
    return {"type": "metric", "properties": {**properties, "view": "timeSeries"}}


def _log(watched: Watched) -> Widget:
    """Return the widget with the receipts of batches and the errors."""
    query = " | ".join(
        (
            f"SOURCE '{watched.log_group}'",
            "fields @timestamp, @message",
            f"filter @logStream like /SPARK_DRIVER/ and @message like {WORTH_SEEING}",
            "sort @timestamp desc",
            "limit 100",
        )
    )
    properties = {"title": "Batches and failures", "region": watched.region, "view": "table", "query": query}
    return {"type": "log", "width": 2 * WIDTH, "properties": properties}
