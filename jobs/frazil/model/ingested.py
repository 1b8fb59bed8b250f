"""What ingest tasks are given and what they return. Plain values: they travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frazil.model.plan import OffsetRange, WriterSchemas
from frazil.model.progress import Counts, OffsetSums
from frazil.model.spec import RegistrySettings, SettingValue, TableSpec


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A table as a task needs it to write files: Iceberg's own JSON of its schema and partition spec."""

    identifier: str
    location: str
    schema_json: str
    partition_spec_json: str
    properties: Mapping[str, str]
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """All that the tasks of one batch share."""

    spec: TableSpec
    batch_id: str
    file_prefix: str
    rows: WriteTarget
    dead_letters: WriteTarget
    former_names: Mapping[str, tuple[str, ...]]
    schemas: WriterSchemas
    kafka: Mapping[str, SettingValue]
    registry: RegistrySettings
    storage: Mapping[str, SettingValue]
    source_ids: Mapping[str, tuple[str | None, int]]
    """Topic id and generation by topic."""
    dead_letter_schemas: frozenset[int] = frozenset()
    """Writer schemas whose records become dead letters, by id."""


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One task: it reads its ranges one after the other."""

    context: TaskContext
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished Parquet file of `size` bytes that no table knows yet, with the statistics that Iceberg keeps.

    `partition` holds values of the partition spec `spec_id`, which may not be the table's present one any more.
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


StoppedBy = Literal["end", "bytes", "schema", "lookups"]


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What became of one range: records of `[start, end)` were read, `end` being at most what was planned.

    `gaps` counts offsets in it that hold no record for us: compacted away, control records, aborted transactions.
    `met_schema_ids` are valid ids that the plan does not know; the first such record is at `end`.
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
    met_schema_ids: tuple[int, ...] = ()
    met_key_schema_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one successful task returns. `unknown_schema_ids` were looked up and do not exist."""

    ranges: tuple[RangeResult, ...]
    row_files: tuple[WrittenFile, ...]
    dead_letter_files: tuple[WrittenFile, ...]
    unknown_schema_ids: tuple[int, ...] = ()
    truncated_nanos: int = 0
