"""The receipt of a batch: what was read, the outcome of every record, and how long each step took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from frazil.model.moments import rfc3339
from frazil.model.progress import Counts


@dataclass(frozen=True, slots=True)
class RangeReceipt:
    """The offsets `[start, end)` of one partition that a batch read."""

    topic: str
    partition: int
    start: int
    end: int
    counts: Counts
    gaps: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """One batch. `snapshot_id` is None until it is published; `seconds` is the elapsed time by step."""

    table: str
    epoch: int
    batch_id: str
    ranges: tuple[RangeReceipt, ...]
    counts: Counts
    skipped_by_reason: Mapping[str, int]
    dead_letters_by_reason: Mapping[str, int]
    payload_bytes: int
    file_bytes: int
    files: int
    truncated_nanos: int
    complete_through: datetime | None
    foreign: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    snapshot_id: int | None = None
    undeclared_fields: int = 0
    """The fields that no schema declares, which the table keeps in the column `_extra`."""
    schema_changes: tuple[str, ...] = ()
    """The schema changes by this process since its previous receipt, such as `add column note: string`."""

    replayed: int = 0
    """The dead letters of a replay, which reads no offsets: `counts` has what they became."""

    forgotten: int | None = None
    """The rows that an erasure took out, which reads no offsets; None for any other batch."""

    group: Counts | None = None
    """In the receipt of a group's ledger: the outcomes of all records, with dead letters and skipped ones by reason."""

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["complete_through"] = None if self.complete_through is None else rfc3339(self.complete_through)
        return value
