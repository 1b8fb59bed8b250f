"""The accounts of a batch: what the tasks returned, checked, as the table's next state and the batch's receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from frazil.materialize.complete_through import observation, with_observation
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import (
    FollowedRecords,
    FollowedRows,
    IncompleteRecords,
    RangeResult,
    RouteFiles,
    RouteRows,
    TaskResult,
    Truncates,
    WrittenFile,
)
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.plan import BatchPlan, PartitionFacts, TopicFacts
from frazil.model.progress import Counts, Fitted, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.remembered import RememberedDeletes
from frazil.model.routes import Group
from frazil.model.schemas import SchemaId, in_order
from frazil.modes.incomplete import NO_ROW_TO_KEEP
from frazil.modes.mode import Late, Written
from frazil.modes.truncation import OutOfTable

NOTHING: Mapping[int, OutOfTable] = {}


@dataclass(frozen=True, slots=True)
class Ingested:
    """The results of all tasks of a batch. For a group, `route_files` has what was written for each table."""

    ranges: tuple[RangeResult, ...]
    row_files: tuple[WrittenFile, ...]
    dead_letter_files: tuple[WrittenFile, ...]
    unknown_schema_ids: tuple[SchemaId, ...]
    truncated_nanos: int
    undeclared_fields: int = 0
    route_files: tuple[RouteFiles, ...] = ()
    followed: tuple[FollowedRows, ...] = ()
    deletes: tuple[FollowedRecords, ...] = ()
    incomplete: tuple[IncompleteRecords, ...] = ()
    truncates: tuple[Truncates, ...] = ()

    @property
    def written(self) -> Written:
        return Written(self.row_files, self.counts.rows, self.followed, self.deletes, self.incomplete)

    @property
    def counts(self) -> Counts:
        return sum((each.counts for each in self.ranges), Counts())

    @property
    def met_value_ids(self) -> tuple[SchemaId, ...]:
        return in_order(i for each in self.ranges for i in each.met_schema_ids)

    @property
    def met_key_ids(self) -> tuple[SchemaId, ...]:
        return in_order(i for each in self.ranges for i in each.met_key_schema_ids)

    @property
    def ahead_value_ids(self) -> tuple[SchemaId, ...]:
        return in_order(i for each in self.ranges for i in each.ahead_schema_ids)

    @property
    def ahead_key_ids(self) -> tuple[SchemaId, ...]:
        return in_order(i for each in self.ranges for i in each.ahead_key_schema_ids)

    @property
    def advanced(self) -> bool:
        """Return whether any offset was read: a batch that only found new schemas publishes nothing."""
        return any(each.end > each.start for each in self.ranges)

    def without_late(self, late: Mapping[int, Late], numbers: PartitionNumbers) -> Ingested:
        """Return the account in which late records are duplicates. `late` is by the number of the partition."""
        late_in = ((each, late.get(numbers.number(each.topic, each.partition))) for each in self.ranges)
        return replace(self, ranges=tuple(_without(each, here) for each, here in late_in))

    def without_unkept(self, unkept: Mapping[int, OutOfTable]) -> Ingested:
        """Return the account in which events that keep a row which is not there are skipped, by partition."""
        return replace(self, ranges=tuple(_without_unkept(each, unkept.get(each.partition)) for each in self.ranges))

    def of_route(self, place: int) -> Ingested:
        """Return the part of one table of a group: of each range, the records that it took.

        Dead letters, skipped records and what was noticed on the way belong to the group. Offsets, gaps and bytes are
        those of the whole ranges.
        """
        mine = self.route_files[place]
        return replace(
            self,
            ranges=tuple(_of_route(each, each.routes[place]) for each in self.ranges),
            row_files=mine.files,
            dead_letter_files=(),
            route_files=(),
            followed=mine.followed,
            deletes=mine.deletes,
        )


def _without(result: RangeResult, late: Late | None) -> RangeResult:
    if late is None:
        return result
    rows, deletes = late.rows.rows, late.deletes
    counts = result.counts + Counts(rows=-rows, deletes=-deletes, duplicates=rows + deletes)
    return replace(result, counts=counts, sums=result.sums - late.rows.sums)


def _without_unkept(result: RangeResult, unkept: OutOfTable | None) -> RangeResult:
    if unkept is None:
        return result
    counts = result.counts + Counts(rows=-unkept.rows, skipped=unkept.rows)
    reasons = _added(result.skipped_by_reason, [{NO_ROW_TO_KEEP: unkept.rows}])
    return replace(result, counts=counts, sums=result.sums - unkept.sums, skipped_by_reason=reasons)


def _of_route(result: RangeResult, mine: RouteRows) -> RangeResult:
    return replace(
        result,
        counts=Counts(read=mine.taken, rows=mine.rows, deletes=mine.deletes),
        sums=mine.sums,
        skipped_by_reason={},
        dead_letters_by_reason={},
        routes=(),
        records=result.counts.read,
    )


def gather(plan: BatchPlan, results: Sequence[TaskResult], *, group: Group | None = None) -> Ingested:
    """Combine all results, of the tables of a group in the order of its routes.

    Raises CountMismatchError if the results do not add up to the plan.
    """
    gathered = Ingested(
        ranges=tuple(r for result in results for r in result.ranges),
        row_files=tuple(f for result in results for f in result.row_files),
        dead_letter_files=tuple(f for result in results for f in result.dead_letter_files),
        unknown_schema_ids=in_order(i for result in results for i in result.unknown_schema_ids),
        truncated_nanos=sum(result.truncated_nanos for result in results),
        undeclared_fields=sum(result.undeclared_fields for result in results),
        route_files=tuple(
            _together([result.route_files[place] for result in results])
            for place in range(0 if group is None else len(group.routes))
        ),
        followed=tuple(f for result in results for f in result.followed),
        deletes=tuple(f for result in results for f in result.deletes),
        incomplete=tuple(f for result in results for f in result.incomplete),
        truncates=tuple(f for result in results for f in result.truncates),
    )
    for expectation, expected, found in _checks(plan, gathered, group):
        if expected != found:
            raise CountMismatchError(
                f"{plan.table}: batch {plan.batch_id}: {expectation}: expected {expected}, found {found};"
                f" nothing was published",
                hint="this is a defect in Frazil: report it with the log; the next run starts from the same offsets",
            )
    return gathered


def _together(parts: Sequence[RouteFiles]) -> RouteFiles:
    return RouteFiles(
        tuple(file for each in parts for file in each.files),
        tuple(rows for each in parts for rows in each.followed),
        tuple(records for each in parts for records in each.deletes),
    )


def _checks(plan: BatchPlan, got: Ingested, group: Group | None) -> Iterable[tuple[str, object, object]]:
    """Yield the checks before anything is staged: name, expected, found."""
    planned = sorted((r.topic, r.partition, r.start) for r in plan.ranges)
    yield "the ranges read", planned, sorted((r.topic, r.partition, r.start) for r in got.ranges)
    counts, truncates = got.counts, sum(map(len, got.truncates))
    if group is None:
        own = RouteFiles(got.row_files, got.followed, got.deletes)
        yield from _checks_of_files("", own, rows=counts.rows, deletes=counts.deletes - truncates)
    else:
        yield "deletes", counts.deletes, 0
        yield from _checks_of_tables(got, group)
    yield "dead letters in files", got.counts.dead_letters, sum(file.rows for file in got.dead_letter_files)
    ends = {(r.topic, r.partition): r.end for r in plan.ranges}
    for each in got.ranges:
        name = f"{each.topic}-{each.partition}"
        yield f"{name}: {each.counts.formula()}", True, each.counts.balanced
        if group is not None and not group.has_shapes:
            yield f"{name}: rows of all routes", each.counts.rows, sum(route.rows for route in each.routes)
        yield (
            f"{name}: end {each.end} within the plan",
            True,
            each.start <= each.end <= ends[each.topic, each.partition],
        )
        yield (
            f"{name}: read to its end unless stopped",
            True,
            each.stopped_by != "end" or each.end == ends[each.topic, each.partition],
        )
        yield f"{name}: no more records than offsets", True, each.gaps >= 0


def _checks_of_tables(got: Ingested, group: Group) -> Iterator[tuple[str, object, object]]:
    for place, (route, own) in enumerate(zip(group.routes, got.route_files, strict=True)):
        of_ranges = [each.routes[place] for each in got.ranges]
        name = f"{group.database}.{route.table}"
        rows, deletes = sum(each.rows for each in of_ranges), sum(each.deletes for each in of_ranges)
        yield from _checks_of_files(f" of {name}", own, rows=rows, deletes=deletes)
        if group.has_shapes:
            for each, mine in zip(got.ranges, of_ranges, strict=True):
                yield f"{each.topic}-{each.partition}: records of {name}", each.counts.rows, mine.taken


def _checks_of_files(whose: str, own: RouteFiles, *, rows: int, deletes: int) -> Iterator[tuple[str, object, object]]:
    yield f"rows in files{whose}", rows, sum(file.rows for file in own.files)
    for file, followed in zip(own.files, own.followed, strict=bool(own.followed)):
        yield f"identities of {file.path}", (file.path, file.rows), (followed.path, len(followed.records))
    yield f"deletes{whose}", deletes, sum(map(len, own.deletes))


def next_state(
    plan: BatchPlan,
    got: Ingested,
    *,
    writer: str,
    planned_at: datetime,
    fitted: Fitted | None = None,
    replaced: Mapping[int, OutOfTable] = NOTHING,
    remembered: RememberedDeletes | None = None,
) -> TableState:
    """The table's state after the batch. `fitted` records the plan's schemas.

    `replaced` are rows that are not in the table any more, by the number of their partition. `remembered` are the
    deletes that it remembers.
    """
    now = {facts.topic: facts for facts in plan.topics}
    sources = [_advanced_source(source, now.get(source.topic), got) for source in plan.state.sources]
    read = without_rows(replace(plan.state, sources=tuple(sources)), replaced)
    through, observations = with_observation(read, observation(planned_at, plan.observed or plan.topics, sources))
    return replace(
        read,
        replayed_since=None,
        fitted=fitted,
        complete_through=through,
        observations=observations,
        remembered=remembered,
        epoch=plan.epoch,
        writer=writer,
        batch_id=plan.batch_id,
        schema_ids=in_order([*plan.state.schema_ids, *plan.schemas.values]),
        key_schema_ids=in_order([*plan.state.key_schema_ids, *plan.schemas.keys]),
        skipped_by_reason=_added(plan.state.skipped_by_reason, (r.skipped_by_reason for r in got.ranges)),
    )


def _advanced_source(before: SourceProgress, facts: TopicFacts | None, got: Ingested) -> SourceProgress:
    """Return a topic's progress after the batch; `facts` are None for a topic that the spec does not name any more."""
    if facts is None:
        return replace(before, partitions={n: replace(p, start=p.next) for n, p in before.partitions.items()})
    results = {each.partition: each for each in got.ranges if each.topic == facts.topic}
    last = last_incomplete(got.incomplete)
    partitions = {
        number: _advance(before.partitions.get(number), results.get(number), partition).with_incomplete(
            last.get(number, -1)
        )
        for number, partition in facts.partitions.items()
    }
    return replace(before, topic_id=facts.topic_id or before.topic_id, partitions=partitions)


def last_incomplete(events: Iterable[IncompleteRecords]) -> dict[int, int]:
    """Return the greatest offset of the events of each partition."""
    last: dict[int, int] = {}
    for each in events:
        last[each.partition] = max(last.get(each.partition, -1), max(each.offset, default=-1))
    return last


def without_rows(state: TableState, replaced: Mapping[int, OutOfTable]) -> TableState:
    """Return the state without rows that are not in the table any more, by the number of their partition."""
    partitions = {source.topic: dict(source.partitions) for source in state.sources}
    for number, gone in replaced.items():
        topic, partition = state.partition_numbers.source(number)
        at = partitions[topic][partition]
        partitions[topic][partition] = replace(at, replaced=at.replaced + gone.rows, sums=at.sums - gone.sums)
    return replace(state, sources=tuple(replace(each, partitions=partitions[each.topic]) for each in state.sources))


def _advance(before: PartitionProgress | None, result: RangeResult | None, facts: PartitionFacts) -> PartitionProgress:
    if before is None:
        before = PartitionProgress.beginning_at(facts.earliest if result is None else result.start)
    if result is None:
        return replace(before, start=before.next)
    return replace(
        before,
        start=result.start,
        next=result.end,
        counts=before.counts + result.counts,
        sums=before.sums + result.sums,
        leader_epoch=before.leader_epoch if result.leader_epoch is None else result.leader_epoch,
        record_bytes=before.record_bytes if result.record_bytes is None else result.record_bytes,
    )


def receipt_of(plan: BatchPlan, got: Ingested, state: TableState, *, seconds: Mapping[str, float]) -> Receipt:
    return Receipt(
        table=plan.table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=tuple(RangeReceipt(r.topic, r.partition, r.start, r.end, r.counts, r.gaps) for r in got.ranges),
        counts=got.counts,
        skipped_by_reason=_added({}, (r.skipped_by_reason for r in got.ranges)),
        dead_letters_by_reason=_added({}, (r.dead_letters_by_reason for r in got.ranges)),
        payload_bytes=sum(r.payload_bytes for r in got.ranges),
        file_bytes=sum(file.size for file in got.row_files),
        files=len(got.row_files),
        truncated_nanos=got.truncated_nanos,
        undeclared_fields=got.undeclared_fields,
        complete_through=state.complete_through,
        foreign=state.foreign.names,
        seconds=dict(seconds),
    )


def _added(base: Mapping[str, int], more: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter(base)
    for each in more:
        total.update(each)
    return dict(sorted(total.items()))
