"""How far a table has come: the counts of its records and the offsets it was read to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

MODULUS = 2**64
"""Sums of offsets are kept modulo this, so that they stay one machine word for ever."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of records. `read = rows + deletes + duplicates + dead_letters + skipped`, always."""

    read: int = 0
    rows: int = 0
    deletes: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    skipped: int = 0

    @property
    def balanced(self) -> bool:
        return self.read == self.rows + self.deletes + self.duplicates + self.dead_letters + self.skipped

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            read=self.read + other.read,
            rows=self.rows + other.rows,
            deletes=self.deletes + other.deletes,
            duplicates=self.duplicates + other.duplicates,
            dead_letters=self.dead_letters + other.dead_letters,
            skipped=self.skipped + other.skipped,
        )

    def formula(self) -> str:
        return (
            f"{self.read:,} read = {self.rows:,} rows + {self.deletes:,} deletes + {self.duplicates:,} duplicates"
            f" + {self.dead_letters:,} dead letters + {self.skipped:,} skipped"
        )


@dataclass(frozen=True, slots=True)
class OffsetSums:
    """The sum and the sum of squares of some rows' offsets, modulo 2^64: a lost, doubled or altered row shows."""

    offsets: int = 0
    squares: int = 0

    def __add__(self, other: OffsetSums) -> OffsetSums:
        return OffsetSums((self.offsets + other.offsets) % MODULUS, (self.squares + other.squares) % MODULUS)


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition since the table began: `[origin, next)` has been read; `start` is where the last batch began.

    `record_bytes` is the mean size of key and value of the records that were read last, None before any was.
    """

    origin: int
    start: int
    next: int
    counts: Counts = field(default_factory=Counts)
    sums: OffsetSums = field(default_factory=OffsetSums)
    leader_epoch: int | None = None
    record_bytes: int | None = None

    @staticmethod
    def beginning_at(offset: int) -> PartitionProgress:
        return PartitionProgress(origin=offset, start=offset, next=offset)


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One topic of a table. `topic_id` is None where the broker has none (before KIP-516).

    `generation` tells apart topics of one name: it grows when a re-created topic is accepted.
    """

    topic: str
    topic_id: str | None
    generation: int
    partitions: Mapping[int, PartitionProgress]


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """Up to where partitions of a topic had records at some moment; only partitions that are not read so far."""

    topic: str
    generation: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """What has to be read before a table is complete through the moment `at`."""

    at: datetime
    topics: tuple[ObservedTopic, ...]


@dataclass(frozen=True, slots=True)
class ForeignChanges:
    """What others have committed between our own snapshots (`materialize/state.py` counts it)."""

    snapshots: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    names: tuple[str, ...] = ()
    """The last of them, such as `delete 8323258955487015709`; at most `KEPT`."""

    def __add__(self, other: ForeignChanges) -> ForeignChanges:
        return ForeignChanges(
            snapshots=self.snapshots + other.snapshots,
            rows_added=self.rows_added + other.rows_added,
            rows_removed=self.rows_removed + other.rows_removed,
            names=(self.names + other.names)[-FOREIGN_NAMES_KEPT:],
        )


FOREIGN_NAMES_KEPT = 20


@dataclass(frozen=True, slots=True)
class Fitted:
    """Writer schemas that a table has columns for: a hash of each by id, and of what they were compared with."""

    table: str
    values: Mapping[int, str]
    keys: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class TableState:
    """All that is needed to go on, as a snapshot holds it (`model/summary.py`).

    `epoch` is the number of batches published; `writer` names the process that published the last one.
    `complete_through` is a moment: every offset below the high watermarks of then has been read. It is None until the
    first backfill ends. `observations` are later moments for which that is not true yet.
    """

    pipeline: str
    epoch: int
    writer: str
    batch_id: str
    sources: tuple[SourceProgress, ...]
    complete_through: datetime | None = None
    observations: tuple[Observation, ...] = ()
    schema_ids: tuple[int, ...] = ()
    key_schema_ids: tuple[int, ...] = ()
    fitted: Fitted | None = None
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    foreign: ForeignChanges = field(default_factory=ForeignChanges)

    def total(self) -> Counts:
        counts = Counts()
        for source in self.sources:
            for partition in source.partitions.values():
                counts = counts + partition.counts
        return counts

    def with_foreign(self, changes: ForeignChanges) -> TableState:
        return replace(self, foreign=self.foreign + changes)
