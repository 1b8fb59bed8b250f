"""The ingest task of a batch, for benchmarks that run it in their own process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from frazil.adapters.registry import ConfluentRegistry
from frazil.cli.clients import open_clients, table_runs
from frazil.model.ingested import IngestTask, TaskResult
from frazil.model.plan import WriterSchemas
from frazil.model.settings import Settings


class PlannedError(Exception):
    """Ends a run where its tasks would begin."""


class TaskCatcher:
    """A runner that keeps the tasks of a batch and runs none (`ports.TaskRunner`)."""

    parallelism = 1

    def __init__(self) -> None:
        self.tasks: Sequence[IngestTask] = ()

    def start(self) -> object:
        return None

    def stop(self) -> None: ...

    def offsets_read(self, name: str) -> int:
        del name
        return 0

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        self.tasks = tasks
        raise PlannedError(name)


def planned_task(settings: Settings) -> IngestTask:
    """Return the first task of the first table's next batch."""
    catcher = TaskCatcher()
    runs = table_runs(open_clients(settings, catcher, on_receipt=lambda _: None), settings.tables)
    try:
        runs[0].batch()
    except PlannedError:
        return catcher.tasks[0]
    raise SystemExit(f"{settings.tables[0].identifier}: nothing was planned")


def knowing(task: IngestTask, schema_ids: Sequence[int]) -> IngestTask:
    """Return the task with these writer schemas, as in a table that has seen them."""
    if task.context.registry is None or not schema_ids:
        return task
    with closing(ConfluentRegistry(task.context.registry)) as registry:
        found = [registry.by_id(schema_id) for schema_id in schema_ids]
    schemas = WriterSchemas(values={schema.id: schema for schema in found if schema is not None}, keys={})
    return replace(task, context=replace(task.context, schemas=schemas))
