"""Partitions that were added to the topic of tables whose records are ordered by their offsets (decision 0036).

A key may have moved to one of them, and offsets of two partitions do not say which record is newer. So the partitions
that the table has are first read to the ends that they had when the others were seen; after that, timestamps order the
records of a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from frazil.materialize.changed_spec.applied_spec import (
    BY_OFFSET,
    SPEC_PROPERTY,
    AppliedSpec,
    applied_spec_of,
    ordered_as,
    spec_property,
)
from frazil.materialize.state import Standing
from frazil.model.errors import CommitRejectedError
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import SourceProgress
from frazil.model.spec import TableSpec
from frazil.ports import Lake

Ordered = tuple[TableSpec, Standing]
"""A table, alone or of a group, whose tables have equal offsets."""


def may_order_by_time(spec: TableSpec) -> bool:
    """Return whether timestamps can order the records of this table later, which offsets order now."""
    return spec.write in ("upsert", "history") and not spec.order and "timestamp" in spec.metadata.keep


def without_waiting(tables: Sequence[Ordered], source: SourceProgress, facts: TopicFacts) -> TopicFacts:
    """Return what is read of the topic as long as offsets order the records of one of the tables: others wait.

    These are the partitions that the tables have, up to the offsets up to which offsets order records.
    """
    if not any(_waiting(spec, source, facts) for spec, _ in tables):
        return facts
    read = {number: progress.next for number, progress in source.partitions.items()}
    there = ((number, each) for number, each in facts.partitions.items() if number in read)
    ends = {number: max(offset, read.get(number, 0)) for number, offset in _first_of_all(tables).items()}
    return replace(facts, partitions={number: _up_to(each, ends.get(number, each.end)) for number, each in there})


def _up_to(facts: PartitionFacts, end: int) -> PartitionFacts:
    """Return a partition that can be read up to this offset. Its high watermark stays."""
    return facts if end >= facts.end else replace(facts, end=end, held_back=facts.high_watermark - end)


def _waiting(spec: TableSpec, source: SourceProgress, facts: TopicFacts) -> bool:
    """Return whether the topic has partitions that are not read as long as offsets order the records."""
    return (
        bool(source.partitions) and may_order_by_time(spec) and not facts.partitions.keys() <= source.partitions.keys()
    )


@dataclass(frozen=True, slots=True)
class NextOrder:
    """What is to order the records: their offsets up to `first`, by partition; after that timestamps, if `by_time`."""

    first: Mapping[int, int]
    by_time: bool

    def commit(self, lake: Lake, spec: TableSpec, at: Standing) -> None:
        """Record the order in the table, unless the table has changed meanwhile: then it is to be judged again."""
        applied = _applied(spec, at)
        order = f"{spec.metadata.prefix}timestamp" if self.by_time else BY_OFFSET
        after = replace(applied, keys={**applied.keys, "order_by": order}, offsets_first=self.first)
        with suppress(CommitRejectedError):
            lake.set_property_at(at.view, SPEC_PROPERTY, spec_property(after)[SPEC_PROPERTY])


def record_orders(lake: Lake, tables: Sequence[Ordered], topics: Sequence[TopicFacts]) -> bool:
    """Record the orders that the tables are to have before their next batch. Return whether one gets another order.

    The specs are those that are written. Nothing is read before every table has its order, so a process that dies
    between two of these commits leaves the next run the rest.
    """
    described = {facts.topic: facts for facts in topics}
    found = [(spec, at, _next_order(spec, at, described, _first_of_all(tables))) for spec, at in tables]
    for spec, at, order in found:
        if order is not None:
            order.commit(lake, spec, at)
    return any(order is not None for _, _, order in found)


def _next_order(
    given: TableSpec, at: Standing, topics: Mapping[str, TopicFacts], of_all: Mapping[int, int]
) -> NextOrder | None:
    """Return the order that the table is to have before its next batch; None if it has it.

    A table that was rolled back or rewound reads offsets again that offsets had ordered, and they do so again, unless
    the spec names the timestamps by now. `of_all` are the offsets up to which offsets order the records of any table.
    """
    spec, source = ordered_as(given, at.view.properties), at.state.sources[0]
    facts, first = topics.get(source.topic), offsets_first(spec, at)
    if facts is None or not {*source.partitions} <= {*facts.partitions}:
        return None
    read = {number: progress.next for number, progress in source.partitions.items()}
    if first and spec.order_by is not None:
        again = {number: min(offset, read.get(number, offset)) for number, offset in first.items()}
        if again == first:
            return None
        return NextOrder(first, by_time=False) if given.order_by is None else NextOrder(again, by_time=True)
    if not _waiting(spec, source, facts):
        return None
    if not first:
        ends = {number: of_all.get(number, facts.partitions[number].end) for number in read}
        return NextOrder(ends, by_time=False)
    return NextOrder(read, by_time=True) if all(read.get(n, 0) >= offset for n, offset in of_all.items()) else None


def _first_of_all(tables: Sequence[Ordered]) -> Mapping[int, int]:
    """Return the offsets up to which offsets order the records of any of the tables, by partition."""
    ends: dict[int, int] = {}
    for spec, at in tables:
        for number, offset in offsets_first(spec, at).items():
            ends[number] = max(offset, ends.get(number, 0))
    return ends


def offsets_first(spec: TableSpec, at: Standing) -> Mapping[int, int]:
    """Return the offsets up to which offsets order the records; empty if no partition was added to the topic."""
    applied = applied_spec_of(at.view.properties, table=spec.identifier)
    return {} if applied is None else applied.offsets_first


def note_on_order(spec: TableSpec, at: Standing) -> str | None:
    """Return what orders the records of a key since partitions were added; None if none was."""
    first = offsets_first(spec, at)
    if not first:
        return None
    if _applied(spec, at).keys["order_by"] != BY_OFFSET:
        return f"since partitions were added, {spec.metadata.prefix}timestamp orders the records of a key"
    ends = ", ".join(f"{number}: {offset:,}" for number, offset in sorted(first.items()))
    return (
        f"partitions were added: they wait until the others are read up to the offsets {ends}; then"
        f" {spec.metadata.prefix}timestamp orders the records of a key"
    )


def _applied(spec: TableSpec, at: Standing) -> AppliedSpec:
    applied = applied_spec_of(at.view.properties, table=spec.identifier)
    assert applied is not None  # noqa: S101 - the spec is recorded before a batch
    return applied
