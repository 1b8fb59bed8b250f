"""A plan becomes a few large tasks, about equally long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from frazil.materialize.erasure_key import read_erasure_key
from frazil.materialize.even_shares import even_shares
from frazil.materialize.hash_key import with_keys_read
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.schema.former_names import former_names_of
from frazil.model.erasures import ErasedHash, erased_hashes
from frazil.model.ingested import IngestTask, RouteTarget, TaskContext, WriteTarget
from frazil.model.plan import BatchPlan, OffsetRange
from frazil.model.routes import Group
from frazil.model.secret import SettingValue
from frazil.model.settings import RegistrySettings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

SMALL_BATCH = 50_000
"""Offsets that one task reads faster than several could be started."""


@dataclass(frozen=True, slots=True)
class BatchTable:
    """A table that a batch writes rows to: its spec, and the table as it was loaded."""

    spec: TableSpec
    rows: TableView


def tasks_of(plan: BatchPlan, context: TaskContext, *, parallelism: int) -> tuple[IngestTask, ...]:
    """Assign the ranges to tasks: longest range first, each to the task with the fewest offsets so far."""
    count = 1 if plan.offsets <= SMALL_BATCH else min(parallelism, len(plan.ranges))
    shares = even_shares(plan.ranges, size=_length, count=count)
    return tuple(IngestTask(context, tuple(share)) for share in shares if share)


def _length(each: OffsetRange) -> int:
    return each.end - each.start


def task_context(
    tables: Sequence[BatchTable],
    plan: BatchPlan,
    dead_letters: TableView,
    *,
    writer: str,
    kafka: Mapping[str, SettingValue],
    registry: RegistrySettings | None,
    storage: Mapping[str, SettingValue],
) -> TaskContext:
    """Return what the tasks need. `tables` is one table, or those of a group in the order of its routes.

    Raises SettingError and ServiceError.
    """
    spec, rows = tables[0].spec, tables[0].rows
    topic_ids = {facts.topic: facts.topic_id for facts in plan.topics}
    return TaskContext(
        spec=with_keys_read(spec, rows.properties),
        batch_id=plan.batch_id,
        file_prefix=f"{writer}-{plan.epoch:08d}",
        rows=write_target(rows),
        dead_letters=write_target(dead_letters),
        former_names=former_names_of(rows.properties),
        schemas=plan.schemas,
        kafka=kafka,
        registry=registry,
        storage=storage,
        source_ids={s.topic: (topic_ids.get(s.topic, s.topic_id), s.generation) for s in plan.state.sources},
        excluded=excluded_schemas(rows.properties),
        routes=route_targets(tables),
        erasure_key=read_erasure_key(spec, [*_hashes_of_records(tables, plan)], former_names_of(rows.properties)),
    )


def _hashes_of_records(tables: Sequence[BatchTable], plan: BatchPlan) -> Iterator[ErasedHash]:
    """Yield the hashes of erased values that the records of a batch may have: those that were read before."""
    generations = {source.topic: source.generation for source in plan.state.sources}
    for each in (each for table in tables for each in erased_hashes(table.rows.properties)):
        if any(r.start < each.end(r.topic, generations.get(r.topic, 0), r.partition) for r in plan.ranges):
            yield each


def route_targets(tables: Sequence[BatchTable]) -> tuple[RouteTarget, ...]:
    """Return the tables of a group as tasks take them; none for a table without a group. Raises as `task_context`."""
    return tuple(_route_target(each.spec.group, each) for each in tables if each.spec.group is not None)


def _route_target(group: Group, table: BatchTable) -> RouteTarget:
    spec, rows = with_keys_read(table.spec, table.rows.properties), write_target(table.rows)
    return RouteTarget(group.route_of(spec.table), spec, rows, former_names_of(table.rows.properties))


def write_target(view: TableView) -> WriteTarget:
    return WriteTarget(
        identifier=view.identifier,
        location=view.location,
        schema_json=view.schema_json,
        partition_spec_json=view.partition_spec_json,
        properties=dict(view.properties),
        uuid=view.uuid,
        sort_order_json=view.sort_order_json,
    )
