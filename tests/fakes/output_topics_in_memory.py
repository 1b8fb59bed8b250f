"""A cluster for output topics, with transactions and fencing; tests/faults/test_output_topics.py has the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from frazil.model.errors import BrokerError, FencedError, OutputSchemaError, TopicMissingError
from frazil.model.outputs import Marker, OutputSpec, ShardPlace
from frazil.outputs.ports import Encoded

Record = tuple[bytes | None, bytes | None]

MOMENTS = ("open", "opened", "marker", "begin", "produced", "marked", "commit", "committed")
"""Where a send can break, in their order; `committed` is before the caller has the answer."""


def nothing(moment: str) -> None:
    del moment


@dataclass
class OutputTopicsInMemory:
    """Topics by name with their partitions, and committed records by topic. `reach` is called at each moment."""

    partitions_of: dict[str, int] = field(default_factory=dict)
    committed: dict[str, list[Record]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], Marker] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)
    transactions: list[int] = field(default_factory=list)
    """The number of records of each committed transaction."""
    forbidden: set[str] = field(default_factory=set)
    """Topics that may not be written to."""
    reach: Callable[[str], None] = nothing
    left_open: bool = False
    """Whether a process has left a transaction with a marker open, which the next one that opens a shard ends."""

    def partitions(self, topic: str) -> int:
        if topic not in self.partitions_of:
            raise TopicMissingError(f"the cluster has no topic {topic}", hint="create it")
        return self.partitions_of[topic]

    def check_permissions(self, output: OutputSpec) -> None:
        if output.topic in self.forbidden:
            raise BrokerError(f"the cluster does not allow this user to write to {output.topic}", hint="grant it")

    def markers(self, places: Sequence[ShardPlace]) -> list[Marker | None] | None:
        return None if self.left_open else [self.offset(place) for place in places]

    def offset(self, place: ShardPlace) -> Marker | None:
        return self.offsets.get((place.group, place.shard))

    def open(self, place: ShardPlace) -> ProducerInMemory:
        self.reach("open")
        producer = ProducerInMemory(self, place)
        self.owners[place.transactional_id] = producer
        self.left_open = False
        self.reach("opened")
        return producer


@dataclass(eq=False)
class ProducerInMemory:
    cluster: OutputTopicsInMemory
    place: ShardPlace
    pending: list[Record] = field(default_factory=list)

    def marker(self) -> Marker | None:
        self.cluster.reach("marker")
        return self.cluster.offset(self.place)

    def begin(self) -> None:
        self._reach("begin")
        self.pending = []

    def add(self, records: Encoded) -> None:
        values = records.values.to_pylist()
        keys = [None] * len(values) if records.keys is None else records.keys.to_pylist()
        self.pending += zip(keys, values, strict=True)
        self._reach("produced")

    def commit(self, marker: Marker) -> None:
        self._reach("marked")
        self._reach("commit")
        self.cluster.committed.setdefault(self.place.topic, []).extend(self.pending)
        self.cluster.offsets[self.place.group, self.place.shard] = marker
        self.cluster.transactions.append(len(self.pending))
        self.cluster.reach("committed")

    def abort(self) -> None:
        self.pending = []

    def _reach(self, moment: str) -> None:
        self.cluster.reach(moment)
        if self.cluster.owners[self.place.transactional_id] is not self:
            raise FencedError("another process has taken over", hint="stop")

    def close(self) -> None: ...


@dataclass
class SchemasInMemory:
    """Registered schemas by subject. One that `refused` names is incompatible."""

    texts: dict[tuple[str, str], int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def register(self, subject: str, schema: str) -> int:
        self.check(subject, schema)
        return self.texts.setdefault((subject, schema), len(self.texts) + 1)

    def check(self, subject: str, schema: str) -> None:
        del schema
        if subject in self.refused:
            raise OutputSchemaError(f"incompatible: {subject}", hint="nothing was sent")

    def schema(self, schema_id: int) -> str:
        return next(text for (_, text), known in self.texts.items() if known == schema_id)
