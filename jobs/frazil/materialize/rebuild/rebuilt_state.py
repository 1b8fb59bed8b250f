"""The state of a rebuilt table, and the receipt of the snapshot that makes it visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import (
    Counts,
    GroupPartition,
    GroupState,
    PartitionProgress,
    RouteLine,
    SourceProgress,
    TableState,
)
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.snapshot import MAIN, REBUILD_PREFIX, Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import carries_state, state_in


@dataclass(frozen=True, slots=True)
class BegunRebuild:
    """A rebuild that has not replaced its table: how many offsets it has read, of how many that the table has read."""

    read: int
    total: int


def begun_rebuild(view: TableView, table: TableState) -> BegunRebuild | None:
    """Return how far the rebuild of a table is; None if none was begun. Raises StateLostError as `state_in` does."""
    found = (each for each in view.ancestry(view.branches.get(REBUILD_PREFIX + MAIN)) if carries_state(each))
    built = next(found, None)
    if built is None:
        return None
    state = state_in(built)
    return BegunRebuild(offsets_in(state), total_offsets(table, state))


def state_after(
    table: TableState, built: TableState, base: TableState | None, *, writer: str, batch_id: str
) -> TableState:
    """Return what was built as the table's next state: one batch that read all offsets, or those after the `base`.

    Both end at the same offsets, so the table is complete through the same time.
    """
    return replace(
        built,
        epoch=table.epoch + 1,
        generation=table.generation + 1,
        writer=writer,
        batch_id=batch_id,
        sources=tuple(_read_at_once(source, base) for source in built.sources),
        complete_through=table.complete_through,
        observations=table.observations,
    )


def with_group(spec: TableSpec, built: TableState) -> TableState:
    """Return what was built, for a ledger with a state of its group, also if there was no record to read."""
    if spec.group is None or spec.ledger is not None or built.group is not None:
        return built
    routes = spec.group.routes
    lines = tuple(RouteLine(route.table, {}) for route in routes)
    nothing = {
        s.topic: {n: GroupPartition(routed_since=p.next) for n, p in s.partitions.items()} for s in built.sources
    }
    return replace(built, group=GroupState(routes, nothing, lines))


def _read_at_once(source: SourceProgress, base: TableState | None) -> SourceProgress:
    before = _partitions_of(base, source.topic)
    starts = {n: before[n].next if n in before else p.origin for n, p in source.partitions.items()}
    return replace(source, partitions={n: replace(p, start=starts[n]) for n, p in source.partitions.items()})


def _partitions_of(state: TableState | None, topic: str) -> Mapping[int, PartitionProgress]:
    sources = () if state is None else state.sources
    return next((source.partitions for source in sources if source.topic == topic), {})


def plan_of(table: TableState, after: TableState, *, identifier: str, uuid: str, head: int) -> BatchPlan:
    """Return the batch that the rebuild is, for the dead letters that become visible with it."""
    return BatchPlan(identifier, after.batch_id, head, table, (), WriterSchemas({}, {}), (), table_uuid=uuid)


Reads = Mapping[str, Mapping[int, int]]
"""How many records were read, by topic and partition."""


def read_by_group(spec: TableSpec, built: TableState, base: TableState | None) -> Reads | None:
    """Return how many records all tables of a ledger's group read, or None if the table is in none."""
    if spec.group is None:
        return None
    group, before = built.group, None if base is None else base.group
    partitions = {} if group is None else group.partitions
    known = {} if before is None else before.partitions
    return {
        topic: {n: (p.counts - known.get(topic, {}).get(n, GroupPartition()).counts).read for n, p in of_topic.items()}
        for topic, of_topic in partitions.items()
    }


def receipt_of(
    identifier: str, after: TableState, base: TableState | None, head: Snapshot, together: Reads | None
) -> Receipt:
    """Return the receipt of all offsets that were read; `head` is the last snapshot of what was built.

    A table of a group takes a share of the records that were read `together`: the others are no gaps.
    """
    ranges = tuple(
        _range(
            s.topic,
            n,
            p,
            _partitions_of(base, s.topic).get(n),
            None if together is None else together.get(s.topic, {}).get(n, 0),
        )
        for s in after.sources
        for n, p in sorted(s.partitions.items())
    )
    before = {} if base is None else base.skipped_by_reason
    skipped = {reason: count - before.get(reason, 0) for reason, count in after.skipped_by_reason.items()}
    return Receipt(
        table=identifier,
        epoch=after.epoch,
        batch_id=after.batch_id,
        ranges=ranges,
        counts=sum((each.counts for each in ranges), Counts()),
        skipped_by_reason={reason: count for reason, count in skipped.items() if count},
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=head.figure("total-files-size"),
        files=head.figure("total-data-files"),
        truncated_nanos=0,
        complete_through=after.complete_through,
        group=_of_group(after, base),
    )


def _of_group(after: TableState, base: TableState | None) -> Counts | None:
    if after.group is None:
        return None
    before = None if base is None else base.group
    return after.group.total() if before is None else after.group.total() - before.total()


def _range(
    topic: str, number: int, at: PartitionProgress, before: PartitionProgress | None, together: int | None
) -> RangeReceipt:
    counts = at.counts if before is None else at.counts - before.counts
    read = counts.read if together is None else together
    return RangeReceipt(topic, number, at.start, at.next, counts, at.next - at.start - read)


def offsets_in(state: TableState) -> int:
    """Return how many offsets have been read."""
    return sum(p.next - p.origin for source in state.sources for p in source.partitions.values())


def total_offsets(table: TableState, built: TableState) -> int:
    """Return how many offsets what is built will have read when it has read as far as the table."""
    return offsets_in(built) + sum(ends_of(table).values()) - sum(ends_of(built).values())


def ends_of(state: TableState) -> Mapping[tuple[str, int], int]:
    """Return the next offset of each partition, by topic and partition."""
    return {(source.topic, number): p.next for source in state.sources for number, p in source.partitions.items()}


def records_read(state: TableState, topic: str, number: int) -> int:
    """Return how many records of a partition the table was made of; for a ledger, those of its group."""
    if state.group is None:
        return progress_of(state, topic, number).counts.read
    found = state.group.partitions.get(topic, {}).get(number)
    return 0 if found is None else found.counts.read


def progress_of(state: TableState, topic: str, number: int) -> PartitionProgress:
    """Return the progress of a partition; of one that the table does not have, that at offset 0."""
    found = (s.partitions.get(number) for s in state.sources if s.topic == topic)
    return next((each for each in found if each is not None), PartitionProgress.beginning_at(0))
