"""The tables of the streaming job run, and those of scheduled runs by their schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

from frazil.model.errors import SettingError
from frazil.model.spec import TableSpec
from frazil.specs.problems import suggest
from infra.settings.model import Jobs, Scheduled, Streamed

SHORTEST_WAIT, LONGEST_WAIT = timedelta(minutes=15), timedelta(hours=1)
"""A streaming driver takes up a request between two batches, and a batch may take much longer than its trigger."""


@dataclass(frozen=True, slots=True)
class Triggers:
    """Table names. `scheduled` groups tables by their expression of EventBridge Scheduler."""

    streamed: tuple[str, ...]
    scheduled: Mapping[str, tuple[str, ...]]


def triggers_of(jobs: Jobs, tables: Sequence[TableSpec], *, source_file: str) -> Triggers:
    """Return how each table is run. Raises SettingError for a table without a spec, or if runs might not fit."""
    names = [spec.table for spec in tables]
    unknown = [name for name in jobs.tables if name not in names]
    if unknown:
        raise SettingError(
            f"{source_file}: jobs.tables: there is no table {unknown[0]}", hint=suggest(unknown[0], names)
        )
    given = {name: jobs.trigger_of(name) for name in names}
    _check_groups(tables, given, source_file)
    expressions = {name: trigger.expression for name, trigger in given.items() if isinstance(trigger, Scheduled)}
    found = Triggers(
        streamed=tuple(name for name in names if name not in expressions),
        scheduled={
            expression: tuple(name for name, its in expressions.items() if its == expression)
            for expression in sorted(set(expressions.values()))
        },
    )
    _check_room(jobs, found, source_file)
    return found


def driver_wait(triggers: Triggers, tables: Sequence[TableSpec]) -> timedelta | None:
    """Return how long a run that maintains tables waits for the streaming driver, None if there is no such driver."""
    every = [spec.trigger.every for spec in tables if spec.table in triggers.streamed]
    return min(max(SHORTEST_WAIT, 2 * max(every)), LONGEST_WAIT) if every else None


def _check_groups(tables: Sequence[TableSpec], given: Mapping[str, Streamed | Scheduled], source_file: str) -> None:
    """Raise SettingError if tables of one spec with routes would be in several runs: each run reads all of them."""
    for first, second in combinations(tables, 2):
        if first.group is not None and first.group == second.group and given[first.table] != given[second.table]:
            raise SettingError(
                f"{source_file}: jobs.tables: {first.table} and {second.table} are read together, because"
                f" {second.source_file} has routes, found two different triggers",
                hint=f"give {first.table} and {second.table} the same trigger",
            )


def _check_room(jobs: Jobs, triggers: Triggers, source_file: str) -> None:
    """Raise SettingError if runs might not fit: EMR Serverless fails a run whose driver gets no capacity."""
    if jobs.maximum_capacity.cpu > jobs.quota_cpu:
        raise SettingError(
            f"{source_file}: jobs.maximum_capacity: {jobs.maximum_capacity.cpu} virtual processors are more than the "
            f"account's quota in EMR Serverless, which is {jobs.quota_cpu}",
            hint="lower it; or ask AWS for a higher quota (Service Quotas, EMR Serverless, max concurrent vCPUs per "
            "account) and set jobs: {quota_cpu: …} to it",
        )
    at_once = bool(triggers.streamed) + len(triggers.scheduled) + (jobs.maintain is not None)
    verifies = jobs.verify is not None
    most = jobs.maximum_capacity
    for part, unit in (("cpu", ""), ("memory_gb", "GB"), ("disk_gb", "GB")):
        of_one = getattr(jobs.driver, part) + jobs.executors * getattr(jobs.executor, part)
        needed = at_once * of_one + verifies * getattr(jobs.driver, part)
        if needed > getattr(most, part):
            name = part.removesuffix("_gb")
            raise SettingError(
                f"{source_file}: jobs.maximum_capacity: {at_once + verifies} job runs may meet and need {name} {needed}"
                f"{unit} together, found {getattr(most, part)}{unit}",
                hint="raise it, lower the workers, or give tables the same schedule, so that they share a run",
            )
