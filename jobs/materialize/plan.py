"""The plan of one batch: a pure function from where the table and its topics stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jobs.materialize.budget import RecordBytes, fit
from jobs.materialize.pausing import PAUSED_PROPERTY, accepted_through
from jobs.materialize.state import Standing
from jobs.model.errors import FrazilError, PausedError, RecordsLostError, SourceChangedError
from jobs.model.plan import (
    BatchPlan,
    Halt,
    NothingToDo,
    OffsetRange,
    PartitionFacts,
    Plan,
    TopicFacts,
    WriterSchemas,
)
from jobs.model.progress import PartitionProgress, SourceProgress
from jobs.model.spec import TableSpec


def plan_batch(
    spec: TableSpec, at: Standing, topics: Sequence[TopicFacts], *, schemas: WriterSchemas, batch_id: str
) -> Plan:
    """What to read next, or that there is nothing, or why the table must not go on."""
    paused = at.view.properties.get(PAUSED_PROPERTY)
    if paused is not None:
        return Halt(spec.identifier, _paused(spec, paused))
    problems = [problem for facts in topics for problem in _problems(spec, _source(at, facts), facts)]
    if problems:
        return Halt(spec.identifier, problems[0])
    accepted = accepted_through(at.view.properties)
    pending = [e for facts in topics for e in _pending(_source(at, facts), facts, accepted.get(facts.topic, {}))]
    ranges = fit(pending, spec.trigger, record_bytes=_record_bytes(at), turn=at.state.epoch)
    if not ranges or at.view.head is None:
        return NothingToDo(spec.identifier, at.state)
    return BatchPlan(
        table=spec.identifier,
        batch_id=batch_id,
        base_snapshot_id=at.view.head,
        state=at.state_with_foreign,
        ranges=ranges,
        schemas=schemas,
        topics=tuple(topics),
    )


def _source(at: Standing, facts: TopicFacts) -> SourceProgress:
    known = {source.topic: source for source in at.state.sources}
    return known.get(facts.topic, SourceProgress(facts.topic, facts.topic_id, 0, {}))


def _record_bytes(at: Standing) -> RecordBytes:
    known = ((s.topic, n, p.record_bytes) for s in at.state.sources for n, p in s.partitions.items())
    return {(topic, number): size for topic, number, size in known if size is not None}


def _problems(spec: TableSpec, source: SourceProgress, facts: TopicFacts) -> Iterator[FrazilError]:
    """Why the topic may not be read on from where the table stands."""
    if source.topic_id is not None and facts.topic_id is not None and source.topic_id != facts.topic_id:
        yield SourceChangedError(
            f"{spec.identifier}: the topic {facts.topic} was re-created: the table was read from topic id"
            f" {source.topic_id}, the broker now has {facts.topic_id}",
            hint="materialize the new topic into another `table`, or restore the old topic",
        )
        return
    for number, progress in sorted(source.partitions.items()):
        partition = facts.partitions.get(number)
        if partition is None:
            yield SourceChangedError(
                f"{spec.identifier}: partition {number} of {facts.topic} was read up to offset {progress.next}"
                f" and is gone; the topic now has {len(facts.partitions)} partitions",
                hint="the topic was re-created or replaced: materialize it into another `table`",
            )
        else:
            yield from _partition_problems(spec, f"{facts.topic}-{number}", progress, partition)


def _partition_problems(
    spec: TableSpec, name: str, progress: PartitionProgress, partition: PartitionFacts
) -> Iterator[FrazilError]:
    if partition.end < progress.next:
        yield SourceChangedError(
            f"{spec.identifier}: {name} was read up to offset {progress.next}, but ends at {partition.end}",
            hint="the topic was re-created or lost records (unclean leader election); compare with"
            " `frazil verify --against-kafka` before deciding",
        )
    elif progress.next < partition.earliest:
        yield RecordsLostError(
            f"{spec.identifier}: retention overtook the reader: {name} was read up to offset {progress.next},"
            f" but the oldest record left is {partition.earliest};"
            f" {partition.earliest - progress.next} offsets are gone",
            hint="raise the topic's retention; restore the records, or start another `table` from the earliest offset",
        )
    elif _is_older(partition.leader_epoch, progress.leader_epoch):
        yield SourceChangedError(
            f"{spec.identifier}: {name} was read under leader epoch {progress.leader_epoch}, but the broker is at"
            f" {partition.leader_epoch}",
            hint="the topic was re-created, or the cluster was restored from an older copy: check it before going on",
        )


def _is_older(now: int | None, then: int | None) -> bool:
    return now is not None and then is not None and now < then


def _pending(source: SourceProgress, facts: TopicFacts, accepted: Mapping[int, int]) -> Iterator[OffsetRange]:
    """All that is left to read. A partition that the table has not met begins at its earliest offset.

    What `resume` accepted ends its range, so that the records behind it are judged on their own.
    """
    for number, partition in sorted(facts.partitions.items()):
        progress = source.partitions.get(number)
        start = partition.earliest if progress is None else progress.next
        end = accepted[number] if start < accepted.get(number, -1) < partition.end else partition.end
        if start < end:
            yield OffsetRange(facts.topic, number, start, end, partition.end, max_bytes=0)


def _paused(spec: TableSpec, why: str) -> PausedError:
    return PausedError(
        f"the table {spec.identifier} is paused: {why}",
        hint=f"mend the cause, then run `frazil resume {spec.identifier}`",
    )
