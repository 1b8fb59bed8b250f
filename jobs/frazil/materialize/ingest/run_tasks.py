"""Read a planned batch: the ranges as tasks, their results as one account."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frazil.formats.open import remember
from frazil.materialize.account import Ingested, gather
from frazil.materialize.clients import Clients
from frazil.materialize.ingest.distribute import BatchTable, task_context, tasks_of
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.schemas import SchemaId
from frazil.model.snapshot import TableView
from frazil.ports import SchemaRegistry


def read_batch(
    clients: Clients,
    tables: Sequence[BatchTable],
    plan: BatchPlan,
    dead_letters: TableView,
    *,
    writer: str,
) -> Ingested:
    """Run the tasks of a plan. Files are written, and nothing is committed. `tables` are as in `task_context`.

    Raises what a task raises, such as IncompatibleSchemaError, and CountMismatchError.
    """
    context = task_context(
        tables,
        plan,
        dead_letters,
        writer=writer,
        kafka=clients.kafka,
        registry=clients.registry_settings,
        storage=clients.lake.storage,
    )
    group = tables[0].spec.group
    if not plan.ranges:
        return gather(plan, (), group=group)
    clients.runner.start()
    tasks = tasks_of(plan, context, parallelism=clients.runner.parallelism)
    results = clients.runner.run(tasks, name=f"{plan.table} epoch {plan.epoch}")
    for text in (text for result in results for text in result.embedded):
        remember(text)
    return gather(plan, results, group=group)


def schemas_met(registry: SchemaRegistry, got: Ingested) -> WriterSchemas:
    """Return the schemas that tasks met and the plan did not know, by id."""
    return _schemas(registry, got.met_value_ids, got.met_key_ids)


def schemas_ahead(registry: SchemaRegistry, got: Ingested) -> WriterSchemas:
    """Return new schemas of records behind those where ranges ended, by id."""
    return _schemas(registry, got.ahead_value_ids, got.ahead_key_ids)


def _schemas(registry: SchemaRegistry, value_ids: Iterable[SchemaId], key_ids: Iterable[SchemaId]) -> WriterSchemas:
    values = {i: registry.by_id(i) for i in value_ids}
    keys = {i: registry.by_id(i) for i in key_ids}
    return WriterSchemas(
        {i: schema for i, schema in values.items() if schema is not None},
        {i: schema for i, schema in keys.items() if schema is not None},
    )
