"""What the ledger of a group stores after a batch, and the state that puts another table at the ledger's batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.materialize.account import Ingested
from frazil.model.progress import (
    Counts,
    GroupPartition,
    GroupState,
    PartitionProgress,
    RouteLine,
    SourceProgress,
    TableState,
)
from frazil.model.routes import Route
from frazil.model.schemas import SchemaId

Reads = Mapping[str, Mapping[int, int]]
"""Numbers of records by topic and partition."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a batch adds to the state of a group: the results of all tables.

    `untaken` are the known schemas that no route takes.
    """

    got: Ingested
    routes: tuple[Route, ...]
    untaken: tuple[SchemaId, ...] = ()

    def added_to(self, before: GroupState | None, ledger: TableState) -> TableState:
        """Return the ledger's state after the batch, with that of the group. `before` is the group's before it."""
        same_routes = before is not None and before.routes == self.routes
        known = {} if before is None else before.partitions
        counts = {(each.topic, each.partition): each.counts for each in self.got.ranges}

        def grown(topic: str, number: int, progress: PartitionProgress) -> GroupPartition:
            there = known.get(topic, {}).get(number)
            since = there.routed_since if there is not None and same_routes else progress.start
            total = Counts() if there is None else there.counts
            return GroupPartition(total + counts.get((topic, number), Counts()), since)

        partitions = {
            source.topic: {number: grown(source.topic, number, each) for number, each in source.partitions.items()}
            for source in ledger.sources
        }
        lines = _lines(() if before is None else before.lines, self.got, self.routes)
        skipped = Counter(ledger.skipped_by_reason)
        for each in self.got.ranges:
            skipped.update(each.skipped_by_reason)
        group = GroupState(self.routes, partitions, lines, self.untaken)
        return replace(ledger, group=group, skipped_by_reason=dict(sorted(skipped.items())))


def _lines(before: Sequence[RouteLine], got: Ingested, routes: Sequence[Route]) -> tuple[RouteLine, ...]:
    lines = {line.table: line for line in before}
    for place, route in enumerate(routes):
        line = lines.get(route.table, RouteLine(route.table, {}))
        lines[route.table] = replace(line, read=_grown(line.read, got, place))
    return tuple(lines.values())


def _grown(read: Reads, got: Ingested, place: int) -> Reads:
    grown = {topic: dict(partitions) for topic, partitions in read.items()}
    for each in got.ranges:
        taken = each.routes[place].taken
        if taken:
            partitions = grown.setdefault(each.topic, {})
            partitions[each.partition] = partitions.get(each.partition, 0) + taken
    return grown


def reads_of(state: TableState) -> Reads:
    """Return how many records a table has taken, without partitions that gave it none, as its line should say."""
    found = {s.topic: {n: p.counts.read for n, p in s.partitions.items() if p.counts.read} for s in state.sources}
    return {topic: partitions for topic, partitions in found.items() if partitions}


def placed(own: TableState | None, at: TableState) -> TableState:
    """Return the state of a table at the ledger's batch `at`: it keeps its own counts, and has the group's offsets.

    A table without a state begins there.
    """
    own = own or TableState(at.pipeline, at.epoch, at.writer, at.batch_id, sources=())
    known = {source.topic: source for source in own.sources}
    sources = tuple(_placed_source(known.get(source.topic), source) for source in at.sources)
    return replace(
        own,
        epoch=at.epoch,
        writer=at.writer,
        batch_id=at.batch_id,
        sources=sources,
        replayed_since=at.replayed_since,
        complete_through=at.complete_through,
        observations=at.observations,
        unnamed_topic=own.topic_of_unnamed_rows if len(sources) > len(own.sources) else own.unnamed_topic,
    )


def _placed_source(own: SourceProgress | None, at: SourceProgress) -> SourceProgress:
    known = {} if own is None else own.partitions
    return replace(at, partitions={number: _placed(known.get(number), each) for number, each in at.partitions.items()})


def _placed(own: PartitionProgress | None, at: PartitionProgress) -> PartitionProgress:
    if own is None or own.next == own.origin:
        own = PartitionProgress.beginning_at(at.next)
    return replace(
        own,
        start=at.next,
        next=at.next,
        leader_epoch=at.leader_epoch,
        record_bytes=at.record_bytes,
        last_incomplete=at.last_incomplete,
    )
