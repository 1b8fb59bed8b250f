"""The progress of a table: the counts of its records and its next offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.remembered import RememberedDeletes
from frazil.model.routes import Route
from frazil.model.schemas import SchemaId
from frazil.model.spelling import plural

MODULUS = 2**64
"""Sums of offsets are modulo this, so that they always fit in 64 bits."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The outcomes of records. Always `read = rows + deletes + duplicates + dead_letters + skipped`."""

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

    def __sub__(self, other: Counts) -> Counts:
        return self + Counts(
            read=-other.read,
            rows=-other.rows,
            deletes=-other.deletes,
            duplicates=-other.duplicates,
            dead_letters=-other.dead_letters,
            skipped=-other.skipped,
        )

    def formula(self) -> str:
        """Return what became of the records: `3 read = 2 rows + 0 deletes + … + 1 dead letter + 0 skipped`."""
        return f"{self.read:,} read = {' + '.join(self._terms().values())}"

    def short_formula(self) -> str:
        """Return the formula without terms that are zero: `3 read = 2 rows + 1 dead letter`."""
        terms = self._terms()
        given = [term for name, term in terms.items() if getattr(self, name)]
        return f"{self.read:,} read = {' + '.join(given or [terms['rows']])}"

    def _terms(self) -> dict[str, str]:
        return {
            "rows": plural(self.rows, "row"),
            "deletes": plural(self.deletes, "delete"),
            "duplicates": plural(self.duplicates, "duplicate"),
            "dead_letters": plural(self.dead_letters, "dead letter"),
            "skipped": f"{self.skipped:,} skipped",
        }


@dataclass(frozen=True, slots=True)
class OffsetSums:
    """The sum and the sum of squares of rows' offsets, modulo 2^64. They reveal a lost, duplicate or altered offset."""

    offsets: int = 0
    squares: int = 0

    def __add__(self, other: OffsetSums) -> OffsetSums:
        return OffsetSums((self.offsets + other.offsets) % MODULUS, (self.squares + other.squares) % MODULUS)

    def __sub__(self, other: OffsetSums) -> OffsetSums:
        return OffsetSums((self.offsets - other.offsets) % MODULUS, (self.squares - other.squares) % MODULUS)


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition since the table's creation: `[origin, next)` has been read; the last batch began at `start`.

    `sums` are those of the rows that are in the table: all that were counted but those that were `replaced`, and those
    that were `forgotten`: erased on request (docs/decisions/0064), or too old (0065). Their offsets have the sums
    `forgotten_sums`; None if an earlier release has erased some.
    `record_bytes` is the mean size of key and value in the most recently read records; None before the first record.
    `last_incomplete` is the offset of the last change event that took values from the row before it; -1 if there was
    none, and None if an earlier release has read events.
    `compacted_deletes` are those that the table had before a rebuild which did not find them in Kafka any more.
    """

    origin: int
    start: int
    next: int
    counts: Counts = field(default_factory=Counts)
    sums: OffsetSums = field(default_factory=OffsetSums)
    leader_epoch: int | None = None
    record_bytes: int | None = None
    replaced: int = 0
    last_incomplete: int | None = None
    forgotten: int = 0
    compacted_deletes: int = 0
    forgotten_sums: OffsetSums | None = None

    @property
    def live_rows(self) -> int:
        return self.counts.rows - self.replaced - self.forgotten

    @staticmethod
    def beginning_at(offset: int) -> PartitionProgress:
        return PartitionProgress(origin=offset, start=offset, next=offset, last_incomplete=-1)

    def with_incomplete(self, offset: int) -> PartitionProgress:
        """Return the progress after a change event that took values from the row before it; -1 is no event."""
        known = self.last_incomplete
        return self if known is None else replace(self, last_incomplete=max(known, offset))


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One topic of a table. `topic_id` is None if the broker has no topic ids (before KIP-516).

    `generation` distinguishes topics of the same name: it increases when a re-created topic is accepted.
    """

    topic: str
    topic_id: str | None
    generation: int
    partitions: Mapping[int, PartitionProgress]


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """The high watermarks of a topic's partitions at some time, without partitions that have been read that far."""

    topic: str
    generation: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """The offsets that must be read before a table is complete through the time `at`."""

    at: datetime
    topics: tuple[ObservedTopic, ...]


@dataclass(frozen=True, slots=True)
class ForeignChanges:
    """The snapshots that others have committed between ours (counted in `materialize/foreign.py`).

    A rewrite of a file adds and removes all its rows. `unsourced_added` and `sourced_removed` are net figures: rows
    that have no source now, and rows of ours that are gone. Neither is ever too low. Of a part of the snapshots, they
    may be negative.
    """

    snapshots: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    names: tuple[str, ...] = ()
    """The operation and id of the last ones, such as `delete 8323258955487015709`; at most `KEPT`."""
    unsourced_added: int = 0
    sourced_removed: int = 0

    def __add__(self, other: ForeignChanges) -> ForeignChanges:
        return ForeignChanges(
            snapshots=self.snapshots + other.snapshots,
            rows_added=self.rows_added + other.rows_added,
            rows_removed=self.rows_removed + other.rows_removed,
            names=(self.names + other.names)[-FOREIGN_NAMES_KEPT:],
            unsourced_added=self.unsourced_added + other.unsourced_added,
            sourced_removed=self.sourced_removed + other.sourced_removed,
        )

    def without_copies(self, count: int) -> ForeignChanges:
        """Return the changes without the effect of so many rows that others had copied, and that are gone again."""
        return replace(self, rows_removed=self.rows_removed + count, sourced_removed=self.sourced_removed + count)

    def of_emptied_table(self) -> ForeignChanges:
        """Return the changes after all rows were taken out: no row of others is left, or missing because of others."""
        return replace(self, rows_removed=self.rows_added, unsourced_added=0, sourced_removed=0)


FOREIGN_NAMES_KEPT = 20


@dataclass(frozen=True, slots=True)
class Fitted:
    """The writer schemas that a table has columns for: a hash of each, by id, and a hash of the table's schema."""

    table: str
    values: Mapping[SchemaId, str]
    keys: Mapping[SchemaId, str]


@dataclass(frozen=True, slots=True)
class BatchRef:
    """A published batch, by its epoch and its id: after a rollback, another batch gets the same epoch."""

    epoch: int
    batch_id: str


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """One partition as all tables of a group read it. From `routed_since` on, the present routes divide its records."""

    counts: Counts = field(default_factory=Counts)
    routed_since: int = 0


@dataclass(frozen=True, slots=True)
class RouteLine:
    """How many records a table of a group has taken, by topic and partition. A removed route keeps its line."""

    table: str
    read: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class GroupState:
    """What the ledger of a group knows of all its tables, as of the batch whose state this is.

    `routes` are those that divided the batch's records; their tables have this batch. `lines` has one for each table
    that ever had a batch of the group, in the order in which they came. `partitions` are by topic and number.

    A plan knows the schemas `untaken_schema_ids` too, though no route takes their records.
    """

    routes: tuple[Route, ...]
    partitions: Mapping[str, Mapping[int, GroupPartition]]
    lines: tuple[RouteLine, ...]
    untaken_schema_ids: tuple[SchemaId, ...] = ()

    def line_of(self, table: str) -> RouteLine | None:
        """Return the line of a table, by its name without the database."""
        return next((line for line in self.lines if line.table == table), None)

    def has(self, table: str) -> bool:
        """Return whether the table has the group's last batch."""
        return any(route.table == table for route in self.routes)

    def total(self) -> Counts:
        return sum((each.counts for topic in self.partitions.values() for each in topic.values()), Counts())


@dataclass(frozen=True, slots=True)
class TableState:
    """The state from which the next batch continues; a snapshot stores it (`model/summary.py`).

    `epoch` is the number of published batches; `writer` is the id of the process that published the last one. Every
    offset below the high watermarks at the time `complete_through` has been read; it is None until the first backfill
    ends. `observations` are later times for which this is not yet true.

    `sources` keeps every topic that the table was ever read from, in the order in which they came. `unnamed_topic` is
    the topic of rows without a topic: those from before the table had several. It is None for a table with one topic,
    and for one that had several from the start.

    In a table of a group, the offsets are those of the group, and the counts and sums those of the records that the
    table's route took. `group` is given in the ledger alone; dead letters and skipped records are counted there.
    """

    pipeline: str
    epoch: int
    writer: str
    batch_id: str
    sources: tuple[SourceProgress, ...]
    complete_through: datetime | None = None
    observations: tuple[Observation, ...] = ()
    schema_ids: tuple[SchemaId, ...] = ()
    key_schema_ids: tuple[SchemaId, ...] = ()
    fitted: Fitted | None = None
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    foreign: ForeignChanges = field(default_factory=ForeignChanges)
    unnamed_topic: str | None = None
    replayed_since: BatchRef | None = None
    """The last batch that read records, if dead letters have been replayed since; None if this state is that batch's.

    A replay reads nothing from Kafka: states with the same `last_read` have the same next offsets.
    """
    group: GroupState | None = None
    remembered: RememberedDeletes | None = None
    """The deletes that a table remembers whose records another column than the offset orders."""
    generation: int = 0
    """The number of rebuilds of the table. The counts are those since the last one, and epochs continue."""

    @property
    def itself(self) -> BatchRef:
        return BatchRef(self.epoch, self.batch_id)

    @property
    def last_read(self) -> BatchRef:
        """The last batch that read records from Kafka."""
        return self.replayed_since or self.itself

    @property
    def topic_of_unnamed_rows(self) -> str | None:
        """The topic of rows that name none; None if each row names its topic."""
        return self.sources[0].topic if len(self.sources) == 1 else self.unnamed_topic

    @property
    def partition_numbers(self) -> PartitionNumbers:
        return PartitionNumbers(tuple(source.topic for source in self.sources), self.topic_of_unnamed_rows)

    def with_topics(self, added: Sequence[SourceProgress]) -> TableState:
        """Return the state with topics that begin."""
        if not added:
            return self
        return replace(self, sources=(*self.sources, *added), unnamed_topic=self.topic_of_unnamed_rows)

    def total(self) -> Counts:
        counts = Counts()
        for source in self.sources:
            for partition in source.partitions.values():
                counts = counts + partition.counts
        return counts

    @property
    def accounted(self) -> Counts:
        """The outcomes of all records that were read: those of the group if this is a ledger's state."""
        return self.total() if self.group is None else self.group.total()

    def with_foreign(self, changes: ForeignChanges) -> TableState:
        return replace(self, foreign=self.foreign + changes)
