"""The plan of one batch: a pure function of the table's state and its topics' offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.materialize.added_partitions import Ordered, may_order_by_time, without_waiting
from frazil.materialize.budget import RecordBytes, fit
from frazil.materialize.pause.pausing import Pause, accepted_through, pause_of
from frazil.materialize.state import Standing
from frazil.model.errors import FrazilError, PausedError, RecordsLostError, SourceChangedError
from frazil.model.plan import (
    BatchPlan,
    Halt,
    NothingToDo,
    OffsetRange,
    PartitionFacts,
    Plan,
    TopicFacts,
    WriterSchemas,
)
from frazil.model.progress import PartitionProgress, SourceProgress, TableState
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural

PROBLEMS_NAMED = 20
"""How many problems of one topic or table an error lists; it counts the others."""

_LOST_HINT = "raise the topic's retention; restore the records, or start another `table` from the earliest offset"


def plan_batch(
    spec: TableSpec,
    at: Standing,
    topics: Sequence[TopicFacts],
    *,
    schemas: WriterSchemas,
    batch_id: str,
    added: Sequence[SourceProgress] = (),
    others: Sequence[Ordered] = (),
) -> Plan:
    """Return the next offsets to read, or that there are none, or why the table must pause.

    `others` are the other tables of the group. `added` are the topics that the table has never been read
    from, at their first offsets.
    """
    paused = pause_of(at.view.properties)
    if paused is not None:
        return Halt(spec.identifier, _paused(spec, paused))
    begun = replace(_begun_later(at.state, topics), pipeline=spec.pipeline.name)
    state = begun.with_topics(added)
    problems = source_problems(spec, at, topics)
    problems += [problem for other, _ in others for problem in _problems_of_order(other, begun, topics)]
    if problems:
        return Halt(spec.identifier, together(problems))
    every, tables = tuple(topics), [(spec, at), *others]
    topics = [without_waiting(tables, _source(state, facts), facts) for facts in topics]
    accepted = accepted_through(at.view.properties)
    pending = [e for facts in topics for e in _pending(_source(state, facts), facts, accepted.get(facts.topic, {}))]
    ranges = fit(pending, spec.trigger, record_bytes=_record_bytes(at), turn=at.state.epoch)
    if not (ranges or added) or at.view.head is None:
        return NothingToDo(spec.identifier, at.state)
    return BatchPlan(
        table=spec.identifier,
        batch_id=batch_id,
        base_snapshot_id=at.view.head,
        state=state,
        ranges=ranges,
        schemas=schemas,
        topics=tuple(topics),
        table_uuid=at.view.uuid,
        begins=tuple(source.topic for source in added),
        observed=every,
    )


def source_problems(spec: TableSpec, at: Standing, topics: Sequence[TopicFacts]) -> list[FrazilError]:
    """Return the problems that keep the topics from being read further from the table's offsets."""
    state = _begun_later(at.state, topics)
    known = {source.topic for source in state.sources}
    return [problem for facts in topics if facts.topic in known for problem in _problems(spec, state, facts)]


def _problems_of_order(spec: TableSpec, state: TableState, topics: Sequence[TopicFacts]) -> Iterator[FrazilError]:
    known = {source.topic: source for source in state.sources}
    for facts in topics:
        if facts.topic in known:
            yield from _added_partitions(spec, known[facts.topic], facts)


def _source(state: TableState, facts: TopicFacts) -> SourceProgress:
    known = {source.topic: source for source in state.sources}
    return known.get(facts.topic, SourceProgress(facts.topic, facts.topic_id, 0, {}))


def _record_bytes(at: Standing) -> RecordBytes:
    known = ((s.topic, n, p.record_bytes) for s in at.state.sources for n, p in s.partitions.items())
    return {(topic, number): size for topic, number, size in known if size is not None}


def _begun_later(state: TableState, topics: Sequence[TopicFacts]) -> TableState:
    """The state with later origins where retention has passed those of a table that has not published a batch.

    Such a table has claimed no record yet, so none of its records can be lost.
    """
    if state.epoch:
        return state
    by_topic = {facts.topic: facts.partitions for facts in topics}
    sources = (_source_begun_later(source, by_topic.get(source.topic, {})) for source in state.sources)
    return replace(state, sources=tuple(sources))


def _source_begun_later(source: SourceProgress, partitions: Mapping[int, PartitionFacts]) -> SourceProgress:
    overtaken = {n: p.earliest for n, p in partitions.items() if n in source.partitions}
    later = {
        n: PartitionProgress.beginning_at(earliest)
        for n, earliest in overtaken.items()
        if source.partitions[n].next < earliest
    }
    return replace(source, partitions={**source.partitions, **later})


def together(problems: Sequence[FrazilError]) -> FrazilError:
    """Return one error that reports every problem; its class and hint are those of the first."""
    first, *others = problems
    if not others:
        return first
    named = [f"- {problem.what}" for problem in problems[:PROBLEMS_NAMED]]
    left = len(problems) - len(named)
    more = [f"- and {left} more"] if left else []
    what = "\n".join([f"{len(problems)} problems:", *named, *more])
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    return type(first)(what, hint="; ".join(hints))


def _problems(spec: TableSpec, state: TableState, facts: TopicFacts) -> Iterator[FrazilError]:
    """Yield the problems that keep the topic from being read further from the table's offsets."""
    source = _source(state, facts)
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
                f" and no longer exists; the topic now has {plural(len(facts.partitions), 'partition')}",
                hint="the topic was re-created or replaced: materialize it into another `table`",
            )
        else:
            yield from _partition_problems(spec, f"{facts.topic}-{number}", progress, partition)
    if state.epoch:
        yield from _lost_heads(spec, source, facts)
        yield from _added_partitions(spec, source, facts)


def _lost_heads(spec: TableSpec, source: SourceProgress, facts: TopicFacts) -> Iterator[RecordsLostError]:
    """Return partitions added since the table began, whose first records were gone before the table could read them."""
    for number, partition in sorted(facts.partitions.items()):
        if number not in source.partitions and partition.earliest > 0:
            yield RecordsLostError(
                f"{spec.identifier}: retention overtook the reader: {facts.topic}-{number} was added after the table"
                f" began and would be read from offset 0, but the oldest record left is {partition.earliest};"
                f" {partition.earliest} offsets are gone",
                hint=_LOST_HINT,
            )


def _added_partitions(spec: TableSpec, source: SourceProgress, facts: TopicFacts) -> Iterator[SourceChangedError]:
    """Yield the error for a table that is ordered by offsets, whose keys may be in other partitions now."""
    added = sorted(facts.partitions.keys() - source.partitions.keys())
    if spec.write in ("upsert", "history") and not spec.order and added and not may_order_by_time(spec):
        yield SourceChangedError(
            f"{spec.identifier}: {facts.topic} has {plural(len(added), 'partition')} more than when the table began:"
            " a key may be in another partition now, and offsets of two partitions do not say which record is newer",
            hint=f"add timestamp to metadata.keep in {spec.source_file}: then it orders the records of a key",
        )


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
            hint=_LOST_HINT,
        )
    elif _is_older(partition.leader_epoch, progress.leader_epoch):
        yield SourceChangedError(
            f"{spec.identifier}: {name} was read under leader epoch {progress.leader_epoch}, but the broker is at"
            f" {partition.leader_epoch}",
            hint="the topic was re-created, or the cluster was restored from an older copy: check which before"
            " you continue",
        )


def _is_older(now: int | None, then: int | None) -> bool:
    return now is not None and then is not None and now < then


def _pending(source: SourceProgress, facts: TopicFacts, accepted: Mapping[int, int]) -> Iterator[OffsetRange]:
    """Return all that is left to read. A partition added since the table began starts at offset 0, its earliest.

    What `resume` accepted ends its range, so that the records behind it are judged on their own.
    """
    for number, partition in sorted(facts.partitions.items()):
        progress = source.partitions.get(number)
        start = partition.earliest if progress is None else progress.next
        end = accepted[number] if start < accepted.get(number, -1) < partition.end else partition.end
        if start < end:
            yield OffsetRange(facts.topic, number, start, end, partition.end, max_bytes=0)


def check_not_paused(spec: TableSpec, properties: Mapping[str, str]) -> None:
    """Raise PausedError if the table is paused."""
    paused = pause_of(properties)
    if paused is not None:
        raise _paused(spec, paused)


def _paused(spec: TableSpec, pause: Pause) -> PausedError:
    return PausedError(
        f"the table {spec.identifier} is paused {pause}",
        hint=pause.hint or f"fix the cause, then run `frazil resume {spec.identifier}`",
    )


def replaced_since(plan: BatchPlan, topics: Sequence[TopicFacts]) -> bool:
    """Return whether a topic was re-created or truncated after the batch was planned.

    Kafka's fetch requests name a topic by its name, so records of the new topic would pass for the old one's.
    """
    now = {facts.topic: facts for facts in topics}
    cut = any(_is_cut(each, now[each.topic]) for each in plan.ranges)
    return cut or any(_is_replaced(before, now[before.topic]) for before in plan.topics)


def _is_cut(read: OffsetRange, now: TopicFacts) -> bool:
    partition = now.partitions.get(read.partition)
    return partition is None or partition.end < read.end


def _is_replaced(before: TopicFacts, now: TopicFacts) -> bool:
    if None not in (before.topic_id, now.topic_id):
        return before.topic_id != now.topic_id
    both = before.partitions.keys() & now.partitions.keys()
    return any(_is_older(now.partitions[n].leader_epoch, before.partitions[n].leader_epoch) for n in both)
