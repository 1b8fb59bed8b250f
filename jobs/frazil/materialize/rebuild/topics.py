"""The topics of a rebuild: from where the table began, as far as it has read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import SourceProgress, TableState
from frazil.model.spec import Start
from frazil.ports import Topics

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""


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
