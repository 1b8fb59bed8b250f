"""Specs, states and views of tables as values, each with only what a test says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from frazil.materialize.state import Standing, standing
from frazil.model.columns import Column, Scalar
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import PartitionProgress, SourceProgress, TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import (
    BadRecordLimit,
    Maintain,
    MetadataColumns,
    StartEarliest,
    SubjectSettings,
    TableSpec,
    Trigger,
)
from frazil.model.summary import store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = TableSpec(
    source_file="tables/orders.yaml",
    database="lake",
    table="orders",
    topics=("orders",),
    key="string",
    value="avro",
    write="append",
    partition_by=(),
    readers=("duckdb",),
    on_bad_record="dead_letter",
    bad_record_limit=BadRecordLimit(share=0.05, at_least=100),
    on_tombstone="row",
    on_incompatible_schema="pause",
    trigger=Trigger(timedelta(seconds=60), rows=1_000, bytes=1_000_000),
    maintain=Maintain(target_file_bytes=512 << 20),
    start=StartEarliest(),
    metadata=MetadataColumns(),
    value_subject=SubjectSettings(),
    key_subject=SubjectSettings(),
)


def spec(**changes: Any) -> TableSpec:
    return replace(SPEC, **changes)


def progress(origin: int, next_offset: int, **more: Any) -> PartitionProgress:
    return PartitionProgress(origin=origin, start=origin, next=next_offset, **more)


def state(
    partitions: Mapping[int, PartitionProgress] | None = None,
    *,
    epoch: int = 3,
    batch_id: str = "batch3",
    topic_id: str | None = "id-1",
    **more: Any,
) -> TableState:
    source = SourceProgress("orders", topic_id, 0, partitions or {})
    return replace(
        TableState(pipeline=SPEC.pipeline.name, epoch=epoch, writer="w1", batch_id=batch_id, sources=(source,)), **more
    )


def snapshot(
    number: int, parent: int | None, *, carries: TableState | None = None, operation: str = "append", **figures: object
) -> Snapshot:
    stored = None if carries is None else store(carries)
    given = {name.replace("_", "-"): str(value) for name, value in figures.items()}
    if stored is None:
        return Snapshot(number, parent, operation, given, NOW)
    summary = {**stored.summary, **given}
    return Snapshot(number, parent, operation, summary, NOW, f"snap-{number}.avro", lambda: stored.document)


def view(
    *snapshots: Snapshot,
    head: int | None = None,
    branches: Mapping[str, int] | None = None,
    tags: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
    columns: tuple[Column, ...] = (Column("n", Scalar("long")),),
) -> TableView:
    """`main` is at `head`, or at the last snapshot given."""
    at = head if head is not None or not snapshots else snapshots[-1].id
    return TableView(
        identifier=SPEC.identifier,
        location="",
        head=at,
        branches={} if at is None else {"main": at, **(branches or {})},
        tags=tags or {},
        snapshots={each.id: each for each in snapshots},
        properties=properties or {},
        columns=columns,
        format_version=2,
        schema_json="",
        partition_spec_json="",
        partition_fields=(),
        current=None,
    )


def stands(at: TableState, *, properties: Mapping[str, str] | None = None) -> Standing:
    """A table whose head carries this state."""
    return standing(view(snapshot(1, None, carries=at), properties=properties), pipeline=SPEC.pipeline)


def topic(partitions: Mapping[int, tuple[int, int] | PartitionFacts], *, topic_id: str | None = "id-1") -> TopicFacts:
    facts = {n: p if isinstance(p, PartitionFacts) else PartitionFacts(*p) for n, p in partitions.items()}
    return TopicFacts("orders", topic_id, facts)


def names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]
