"""Which tables the streaming job run writes, and which have runs of their own, by their schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.settings import Jobs, Scheduled
from jobs.model.errors import SettingError
from jobs.model.spec import TableSpec
from jobs.specs.problems import suggest


@dataclass(frozen=True, slots=True)
class Triggers:
    """Tables by name. `scheduled`: by expression of EventBridge Scheduler, tables with the same one together."""

    streamed: tuple[str, ...]
    scheduled: Mapping[str, tuple[str, ...]]


def triggers_of(jobs: Jobs, tables: Sequence[TableSpec], *, source_file: str) -> Triggers:
    """Raises SettingError where the settings speak of a table that has no spec."""
    names = [spec.table for spec in tables]
    unknown = [name for name in jobs.tables if name not in names]
    if unknown:
        raise SettingError(
            f"{source_file}: jobs.tables: there is no table {unknown[0]}", hint=suggest(unknown[0], names)
        )
    given = {name: jobs.trigger_of(name) for name in names}
    expressions = {name: trigger.expression for name, trigger in given.items() if isinstance(trigger, Scheduled)}
    return Triggers(
        streamed=tuple(name for name in names if name not in expressions),
        scheduled={
            expression: tuple(name for name, its in expressions.items() if its == expression)
            for expression in sorted(set(expressions.values()))
        },
    )
