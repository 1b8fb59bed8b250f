"""The inputs and results of ingest tasks. They are pickled, because tasks run in other processes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.plan import OffsetRange, WriterSchemas
from frazil.model.progress import Counts, OffsetSums
from frazil.model.routes import Route, are_shapes
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, SchemaId
from frazil.model.secret import NamedKey, SettingValue
from frazil.model.settings import RegistrySettings
from frazil.model.sort_order import UNSORTED_JSON
from frazil.model.spec import TableSpec

ATTEMPTS_OF_A_TASK = 4
"""How often Spark runs a task that fails or loses its worker, on one machine and in EMR Serverless."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What a task needs to write files of a table: its schema, partition spec and sort order are Iceberg's JSON."""

    identifier: str
    location: str
    schema_json: str
    partition_spec_json: str
    properties: Mapping[str, str]
    uuid: str = ""
    sort_order_json: str = UNSORTED_JSON


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """A table of a group, and the records that it takes. `spec` is the table's own, with its own policies."""

    route: Route
    spec: TableSpec
    rows: WriteTarget
    former_names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The inputs that all tasks of a batch share. For a group, `spec`, `rows` and `former_names` are its first table's.

    `routes` are the tables of a group in the order of its spec; there is none for a table without a group.
    """

    spec: TableSpec
    batch_id: str
    file_prefix: str
    rows: WriteTarget
    dead_letters: WriteTarget
    former_names: Mapping[str, tuple[str, ...]]
    schemas: WriterSchemas
    kafka: Mapping[str, SettingValue]
    registry: RegistrySettings | None
    storage: Mapping[str, SettingValue]
    source_ids: Mapping[str, tuple[str | None, int]]
    """The topic id and the generation of each topic that the table was read from, in the order in which they came."""
    excluded: ExcludedSchemas = NONE_EXCLUDED
    routes: tuple[RouteTarget, ...] = ()
    erasure_key: NamedKey | None = None
    """The key of the hashes of erased values that the tables keep; None if no record can have been read before."""

    @property
    def tables(self) -> tuple[RouteTarget, ...]:
        """The tables that get rows. The route of a table without a group has no conditions."""
        return self.routes or (RouteTarget(Route(""), self.spec, self.rows, self.former_names),)

    @property
    def partition_numbers(self) -> PartitionNumbers:
        return PartitionNumbers(tuple(self.source_ids))

    @property
    def has_shapes(self) -> bool:
        """Return whether each of the tables gets every record."""
        return are_shapes([each.route for each in self.routes])

    @property
    def policed(self) -> TableSpec | None:
        """The first spec with policies. If there is one, dead letters are encrypted and no message quotes a value."""
        return next((spec for spec in (self.spec, *(each.spec for each in self.routes)) if spec.policies), None)


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One task, which reads its ranges one after the other."""

    context: TaskContext
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished Parquet file of `size` bytes, not yet in the table, with the statistics that Iceberg keeps.

    `partition` holds values of the partition spec `spec_id`, which may no longer be the table's current one.
    `sort_order_id` is the order of all rows of the file; None if they have none.
    """

    path: str
    rows: int
    size: int
    partition: tuple[object, ...]
    spec_id: int
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Rows to take out of the data file `path`: their positions in it, from 0, ascending and distinct.

    `instead_of` are files of position deletes of this data file alone, whose positions are among these.
    """

    path: str
    positions: Sequence[int]
    instead_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DroppedFile:
    """A data file of which no row is left, and files of position deletes of this data file alone."""

    path: str
    deletes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgottenFiles:
    """Paths of files of which nothing may be left in the table's metadata either.

    They are data files of which no row is left, and files of deletes that no other data file needs. No manifest of the
    new snapshot names a file that it, or an earlier snapshot, has removed: such an entry keeps the bounds and the
    partition of the removed file.
    """

    paths: Sequence[str]


Deletion = DeletedRows | DroppedFile | ForgottenFiles


@dataclass(frozen=True, slots=True)
class FollowedRecords:
    """Records of a table that follows keys, by column: the halves of their identity, their partition and offset.

    Partitions are numbered over all topics of the table (`PartitionNumbers`).

    `order` are longs that say before partition and offset which record is newer, most significant first.
    """

    first: array[int]
    second: array[int]
    partition: array[int]
    offset: array[int]
    order: tuple[array[int], ...] = ()

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class IncompleteRecords:
    """Records of one partition, by their offsets, that take `columns` from the row before them (docs/decisions/0040).

    `needs_row`: without such a row, a record changes nothing; else its row is as it was written.
    """

    partition: int
    columns: tuple[str, ...]
    needs_row: bool
    offset: array[int]


@dataclass(frozen=True, slots=True)
class Truncates:
    """Records of one partition, by their offsets, that take out all earlier rows."""

    partition: int
    offset: array[int]

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """The records of the rows of the data file `path`, in the order of the file."""

    path: str
    records: FollowedRecords


@dataclass(frozen=True, slots=True)
class RouteRows:
    """How many rows a range adds to one table of a group, the sums of their offsets, and how many records delete."""

    rows: int = 0
    sums: OffsetSums = field(default_factory=OffsetSums)
    deletes: int = 0

    @property
    def taken(self) -> int:
        """The records of the range that the table takes."""
        return self.rows + self.deletes

    def __add__(self, other: RouteRows) -> RouteRows:
        return RouteRows(self.rows + other.rows, self.sums + other.sums, self.deletes + other.deletes)


@dataclass(frozen=True, slots=True)
class RouteFiles:
    """What a task, or all of a batch, wrote for one table of a group: as in `TaskResult`."""

    files: tuple[WrittenFile, ...]
    followed: tuple[FollowedRows, ...] = ()
    deletes: tuple[FollowedRecords, ...] = ()


StoppedBy = Literal["end", "bytes", "schema", "lookups"]


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The result of one range: the records of `[start, end)` were read; `end` is at most the planned end.

    `gaps` counts its offsets without a visible record: compacted ones, control records, aborted transactions.
    `met_schema_ids` are valid schema ids that the plan does not contain; the first such record is at `end`.
    `ahead_schema_ids` are some of those of records behind it.
    `counts` and `sums` are those of all tables of a group, or with shapes of the first one; `routes` has the rows of
    each. In the share of one table, they are its own, and `records` is the number of all records.
    """

    topic: str
    partition: int
    start: int
    end: int
    stopped_by: StoppedBy
    counts: Counts
    sums: OffsetSums
    gaps: int
    payload_bytes: int
    leader_epoch: int | None
    skipped_by_reason: Mapping[str, int]
    dead_letters_by_reason: Mapping[str, int]
    met_schema_ids: tuple[SchemaId, ...] = ()
    met_key_schema_ids: tuple[SchemaId, ...] = ()
    ahead_schema_ids: tuple[SchemaId, ...] = ()
    ahead_key_schema_ids: tuple[SchemaId, ...] = ()
    routes: tuple[RouteRows, ...] = ()
    records: int | None = None

    @property
    def record_bytes(self) -> int | None:
        """The mean size of a record, at least 1, so that empty records also use some of a budget; None without one."""
        count = self.counts.read if self.records is None else self.records
        return max(-(-self.payload_bytes // count), 1) if count else None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a successful task. The registry has no schemas with the ids `unknown_schema_ids`.

    For a group, `route_files` has what was written for each table, and `row_files` is empty. For a table that follows
    keys, `followed` is about each row of `row_files`, and `deletes` about each record that deletes an identity;
    `incomplete` are those of the rows that take values from others. `embedded` are the texts of schemas that were met
    in records.
    """

    ranges: tuple[RangeResult, ...]
    row_files: tuple[WrittenFile, ...]
    dead_letter_files: tuple[WrittenFile, ...]
    unknown_schema_ids: tuple[SchemaId, ...] = ()
    truncated_nanos: int = 0
    undeclared_fields: int = 0
    route_files: tuple[RouteFiles, ...] = ()
    followed: tuple[FollowedRows, ...] = ()
    deletes: tuple[FollowedRecords, ...] = ()
    incomplete: tuple[IncompleteRecords, ...] = ()
    truncates: tuple[Truncates, ...] = ()
    embedded: tuple[str, ...] = ()
