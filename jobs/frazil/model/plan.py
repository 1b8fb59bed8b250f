"""What one run is about to do for one table: one value, which `explain` prints and `materialize` carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.errors import FrazilError
from frazil.model.progress import TableState
from frazil.model.schemas import RegisteredSchema


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Where a partition stands: offsets `[earliest, end)` can be read; `end` is the last stable offset.

    `held_back` is the number of offsets behind it, which open transactions keep from being read.
    """

    earliest: int
    end: int
    leader_epoch: int | None = None
    held_back: int = 0

    @property
    def high_watermark(self) -> int:
        """The end of what is in the partition, whether it can be read or not."""
        return self.end + self.held_back


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker describes it. `topic_id` is None where the broker has none."""

    topic: str
    topic_id: str | None
    partitions: Mapping[int, PartitionFacts]

    @property
    def offsets(self) -> int:
        """Offsets between the earliest and the end of all partitions: at least as many as there are records."""
        return sum(each.end - each.earliest for each in self.partitions.values())


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[start, end)` of one partition; `partition_end` is where the partition ended when it was planned.

    `max_bytes` bounds the payload bytes read: a task ends the range early, between two records, once it is reached.
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

    values: Mapping[int, RegisteredSchema]
    keys: Mapping[int, RegisteredSchema]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch. `state` is the table's before it, `base_snapshot_id` the head of `main` that it was planned on.

    A record of a writer schema that is not among `schemas` ends its range.
    """

    table: str
    batch_id: str
    base_snapshot_id: int
    state: TableState
    ranges: tuple[OffsetRange, ...]
    schemas: WriterSchemas
    topics: tuple[TopicFacts, ...]
    table_uuid: str = ""

    @property
    def epoch(self) -> int:
        return self.state.epoch + 1

    @property
    def offsets(self) -> int:
        """How many offsets it covers; records are at most as many."""
        return sum(each.end - each.start for each in self.ranges)


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Every partition is read to its end."""

    table: str
    state: TableState


@dataclass(frozen=True, slots=True)
class Halt:
    """The run must not go on with this table."""

    table: str
    error: FrazilError


Plan = BatchPlan | NothingToDo | Halt
