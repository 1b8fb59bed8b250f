"""The plan of one batch of one table, which `explain` prints and `materialize` executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.errors import FrazilError
from frazil.model.progress import BatchRef, TableState
from frazil.model.schemas import RegisteredSchema, SchemaId


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The readable offsets `[earliest, end)` of a partition; `end` is the last stable offset (KIP-98).

    `held_back` is the number of offsets from `end` to the high watermark, which open transactions make unreadable.
    """

    earliest: int
    end: int
    leader_epoch: int | None = None
    held_back: int = 0

    @property
    def high_watermark(self) -> int:
        """The offset after the partition's last record, readable or not."""
        return self.end + self.held_back


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker describes it. `topic_id` is None if the broker has no topic ids (before KIP-516)."""

    topic: str
    topic_id: str | None
    partitions: Mapping[int, PartitionFacts]

    @property
    def offsets(self) -> int:
        """The number of readable offsets of all partitions, which is at least the number of readable records."""
        return sum(each.end - each.earliest for each in self.partitions.values())


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[start, end)` of one partition; `partition_end` is the partition's end at the time of planning.

    `max_bytes` limits the payload bytes: a task that reaches it ends the range early, between two records.
    """

    topic: str
    partition: int
    start: int
    end: int
    partition_end: int
    max_bytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= self.partition_end:
            raise ValueError(f"not a range of {self.topic}-{self.partition}: [{self.start}, {self.end})")


@dataclass(frozen=True, slots=True)
class WriterSchemas:
    """The writer schemas that a table has columns for, by registry id."""

    values: Mapping[SchemaId, RegisteredSchema]
    keys: Mapping[SchemaId, RegisteredSchema]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch. `state` is the table's state before it; `base_snapshot_id` is the head of `main` at planning.

    A record whose writer schema is not in `schemas` ends its range. `begins` are topics that the batch adds to the
    table: it is published even if there is nothing to read.
    """

    table: str
    batch_id: str
    base_snapshot_id: int
    state: TableState
    ranges: tuple[OffsetRange, ...]
    schemas: WriterSchemas
    topics: tuple[TopicFacts, ...]
    table_uuid: str = ""
    begins: tuple[str, ...] = ()
    is_replay: bool = False
    """Whether the batch replays dead letters: it reads no offsets, and is planned again if another came first."""
    observed: tuple[TopicFacts, ...] = ()
    """The topics as they were described, also with partitions that are read later."""

    @property
    def epoch(self) -> int:
        return self.state.epoch + 1

    @property
    def itself(self) -> BatchRef:
        return BatchRef(self.epoch, self.batch_id)

    @property
    def offsets(self) -> int:
        """The number of offsets in the batch, which is at least the number of records."""
        return sum(each.end - each.start for each in self.ranges)


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Every partition has been read to its end."""

    table: str
    state: TableState


@dataclass(frozen=True, slots=True)
class Halt:
    """The run must stop for this table."""

    table: str
    error: FrazilError


Plan = BatchPlan | NothingToDo | Halt
