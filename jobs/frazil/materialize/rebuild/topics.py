"""The topics of a rebuild: from where the table began, as far as it has read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.materialize.changed_spec.applied_spec import TEXTS, applied_spec_of
from frazil.materialize.rebuild.rebuilt_state import ends_of
from frazil.materialize.state import Standing
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import PartitionProgress, TableState
from frazil.model.spec import Start, TableSpec
from frazil.ports import Topics

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""


def own_origins(state: TableState) -> Offsets:
    """Return where a table begins."""
    return {source.topic: {n: p.origin for n, p in source.partitions.items()} for source in state.sources}


def origins_of(spec: TableSpec, here: Standing, topics: Topics, facts: Sequence[TopicFacts]) -> Offsets:
    """Return where a rebuilt table begins: where the table does, or where a changed `start` points."""
    own = own_origins(here.state)
    applied = applied_spec_of(here.view.properties, table=spec.identifier)
    if applied is None or applied.keys["start"] == TEXTS["start"](spec):
        return own
    return {each.topic: _started_again(spec, here, topics, each, own[each.topic]) for each in facts}


def _started_again(
    spec: TableSpec, here: Standing, topics: Topics, facts: TopicFacts, own: Mapping[int, int]
) -> dict[int, int]:
    first, ends = topics.first_offsets(facts, spec.start), ends_of(here.state)
    return {n: min(first.get(n, origin), ends[facts.topic, n]) for n, origin in own.items()}


def unread_from(origins: Offsets, built: TableState | None) -> Offsets:
    """Return the first offsets that are not read again yet, by what was built or by what a rewind begins with.

    What begins later than it was to begin, because Kafka deleted records before its first batch, has not read them.
    """
    read = {(s.topic, n): p for s in (() if built is None else built.sources) for n, p in s.partitions.items()}
    return {
        topic: {n: read[topic, n].next if _has_begun(read.get((topic, n)), at) else at for n, at in each.items()}
        for topic, each in origins.items()
    }


def _has_begun(read: PartitionProgress | None, origin: int) -> bool:
    return read is not None and read.origin <= origin


def ends_up_to(state: TableState, first: Mapping[int, int]) -> Offsets:
    """Return where a table's partitions end; with `first`, only these, at these offsets or before them."""
    ends = {source.topic: {n: p.next for n, p in source.partitions.items()} for source in state.sources}
    if not first:
        return ends
    return {topic: {n: min(end, first[n]) for n, end in each.items() if n in first} for topic, each in ends.items()}


@dataclass(frozen=True, slots=True)
class TopicsUpTo:
    """Topics that have the partitions of `ends` only, from `origins` to there (`ports.Topics`)."""

    topics: Topics
    ends: Offsets
    origins: Offsets

    def describe(self, topic: str) -> TopicFacts | None:
        facts = self.topics.describe(topic)
        if facts is None:
            return None
        ends = self.ends[topic]
        partitions = {n: _up_to(p, ends[n]) for n, p in facts.partitions.items() if n in ends}
        return replace(facts, partitions=partitions)

    def names(self) -> Collection[str]:
        return self.topics.names()

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        del start
        return {n: origin for n, origin in self.origins[facts.topic].items() if n in facts.partitions}


def _up_to(facts: PartitionFacts, end: int) -> PartitionFacts:
    return PartitionFacts(facts.earliest, max(min(facts.end, end), facts.earliest), facts.leader_epoch)
