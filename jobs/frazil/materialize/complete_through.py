"""Complete-through: the latest moment for which all records up to it are known to have been read.

Claimed by observation. Whenever a batch is planned, its time and the topics' high watermarks are noted. Once every
offset below an observation's watermarks has been read, the table is complete through its time. Timestamps of records
play no part: a record may be stamped with any time, and one that is stamped earlier may arrive later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from frazil.model.plan import TopicFacts
from frazil.model.progress import Observation, ObservedTopic, SourceProgress, TableState

OBSERVATIONS_KEPT = 8
OFFSETS_KEPT = 4_000
"""Bounds of what a state holds: observations, and their offsets together, but never fewer than 2 observations."""


def observation(at: datetime, topics: Sequence[TopicFacts], sources: Sequence[SourceProgress]) -> Observation:
    """Note where topics end. `at` must have been read from the clock before the topics were described."""
    generations = {source.topic: source.generation for source in sources}
    return Observation(
        at,
        tuple(
            ObservedTopic(
                facts.topic, generations.get(facts.topic, 0), {n: p.high_watermark for n, p in facts.partitions.items()}
            )
            for facts in topics
        ),
    )


def with_observation(state: TableState, seen: Observation) -> tuple[datetime | None, tuple[Observation, ...]]:
    """Return through when a table is complete, and the observations that it has not reached yet, oldest first.

    `state` has the offsets up to which it was read, and what it claimed and had observed before.
    """
    through, ahead = state.complete_through, list[Observation]()
    for each in (*state.observations, seen):
        left = _left(each, state.sources)
        if left is None or (through is not None and each.at <= through):
            continue
        if not left.topics:
            through, ahead = each.at, []
        elif not ahead or ahead[-1].at < left.at:
            ahead.append(left)
    return through, _thinned(ahead)


def _left(seen: Observation, sources: Sequence[SourceProgress]) -> Observation | None:
    """Return the unread part of an observation, or None if the topic has been replaced since."""
    by_topic = {source.topic: source for source in sources}
    left = []
    for topic in seen.topics:
        source = by_topic.get(topic.topic)
        if source is None or source.generation != topic.generation:
            return None
        ends = {n: end for n, end in topic.ends.items() if _next(source, n) < end}
        left += [ObservedTopic(topic.topic, topic.generation, ends)] if ends else []
    return Observation(seen.at, tuple(left))


def _next(source: SourceProgress, partition: int) -> int:
    progress = source.partitions.get(partition)
    return 0 if progress is None else progress.next


def _thinned(ahead: list[Observation]) -> tuple[Observation, ...]:
    """Keep the oldest, which is reached next, the newest, and of the others those furthest apart in time."""
    while len(ahead) > OBSERVATIONS_KEPT or (len(ahead) > 2 and sum(map(_offsets, ahead)) > OFFSETS_KEPT):
        inner = range(1, len(ahead) - 1)
        del ahead[min(inner, key=lambda n: ahead[n + 1].at - ahead[n - 1].at)]
    return tuple(ahead)


def _offsets(seen: Observation) -> int:
    return sum(len(topic.ends) for topic in seen.topics)
