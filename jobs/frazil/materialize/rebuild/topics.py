"""The topics of a rebuild: from where the table began, as far as it has read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.materialize.changed_spec.applied_spec import TEXTS, applied_spec_of
from frazil.materialize.rebuild.rebuilt_state import ends_of
from frazil.materialize.state import Standing
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import SourceProgress, TableState
from frazil.model.spec import Start, TableSpec
from frazil.ports import Topics

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""


def origins_of(spec: TableSpec, here: Standing, topics: Topics, facts: Sequence[TopicFacts]) -> Offsets:
    """Return where a rebuilt table begins: where the table does, or where a changed `start` points."""
    own = {s.topic: {n: p.origin for n, p in s.partitions.items()} for s in here.state.sources}
    applied = applied_spec_of(here.view.properties, table=spec.identifier)
    if applied is None or applied.keys["start"] == TEXTS["start"](spec):
        return own
    return {each.topic: _started_again(spec, here, topics, each, own[each.topic]) for each in facts}


def _started_again(
    spec: TableSpec, here: Standing, topics: Topics, facts: TopicFacts, own: Mapping[int, int]
) -> dict[int, int]:
    first, ends = topics.first_offsets(facts, spec.start), ends_of(here.state)
    return {n: min(first.get(n, origin), ends[facts.topic, n]) for n, origin in own.items()}


@dataclass(frozen=True, slots=True)
class TopicsUpTo:
    """Topics whose partitions begin at `origins`, and end where the state of their table does (`ports.Topics`).

    With `first`, they have these partitions only, which end at these offsets or before them.
    """

    topics: Topics
    state: TableState
    origins: Offsets
    first: Mapping[int, int] = field(default_factory=dict)

    def describe(self, topic: str) -> TopicFacts | None:
        facts = self.topics.describe(topic)
        if facts is None:
            return None
        ends = {n: progress.next for n, progress in self._source(topic).partitions.items()}
        if self.first:
            ends = {n: min(end, self.first[n]) for n, end in ends.items() if n in self.first}
        partitions = {n: _up_to(p, ends[n]) for n, p in facts.partitions.items() if n in ends}
        return replace(facts, partitions=partitions)

    def names(self) -> Collection[str]:
        return self.topics.names()

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        del start
        return {n: origin for n, origin in self.origins[facts.topic].items() if n in facts.partitions}

    def _source(self, topic: str) -> SourceProgress:
        return next(source for source in self.state.sources if source.topic == topic)


def _up_to(facts: PartitionFacts, end: int) -> PartitionFacts:
    return PartitionFacts(facts.earliest, max(min(facts.end, end), facts.earliest), facts.leader_epoch)
