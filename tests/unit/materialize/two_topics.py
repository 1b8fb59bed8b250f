"""Two topics of two partitions each in one table, whose partitions are numbered over both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ordered_changelogs import Partitions
from values_of_tables import topic

from frazil.model.plan import OffsetRange
from frazil.records import Records
from tests.fakes.clients_in_memory import TopicsInMemory

TOPICS = ("orders", "returns")
OF_A_TOPIC = 2


def number_of(name: str | None, partition: int) -> int:
    """Return the number of a partition. A row without a topic is of the first one."""
    return (0 if name is None else TOPICS.index(name)) * OF_A_TOPIC + partition


@dataclass
class TwoTopics(Partitions):
    """A list of records for each partition: key, value and timestamp. `dropped` are topics that are gone."""

    records: dict[int, list[tuple[bytes | None, bytes | None, int]]] = field(
        default_factory=lambda: {number: [] for number in range(OF_A_TOPIC * len(TOPICS))}
    )
    dropped: set[str] = field(default_factory=set)

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        return super()._chunks(replace(wanted, partition=number_of(wanted.topic, wanted.partition)))

    @property
    def topics(self) -> TopicsInMemory:
        facts = {}
        for name in TOPICS:
            ends = {n: (0, len(self.records[number_of(name, n)])) for n in range(OF_A_TOPIC)}
            facts[name] = replace(topic(ends), topic=name, topic_id=f"id-{name}")
        return TopicsInMemory({name: each for name, each in facts.items() if name not in self.dropped})
