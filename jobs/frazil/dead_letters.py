"""Reads a table's dead letters: the newest of them, and how many there are for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.dead_letter_checks import check_columns
from frazil.materialize.dead_letters import pending_batches
from frazil.model.errors import Misuse
from frazil.model.moments import rfc3339
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake

NEWEST_FIRST = [("read_at", "descending"), ("topic", "ascending"), ("partition", "ascending"), ("offset", "descending")]
PREVIEW_BYTES = 48
FIRST_MICROS = -62_135_596_800 * 10**6
LAST_MICROS = 253_402_300_800 * 10**6 - 1
"""The years 1 to 9999 as microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that could not become a row, with its bytes."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    reason: str
    path: str
    detail: str
    schema_id: int | None
    batch_id: str
    read_at: datetime
    key: bytes | None
    value: bytes | None

    @property
    def record(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"

    def to_json(self) -> dict[str, Any]:
        """Bytes as hexadecimal digits, whole."""
        value = asdict(self)
        for name in ("timestamp", "read_at"):
            value[name] = None if value[name] is None else rfc3339(value[name])
        for name in ("key", "value"):
            value[name] = None if value[name] is None else value[name].hex()
        return {"record": self.record, **value}


COLUMNS = tuple(DeadLetter.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class DeadLetterList:
    """The newest, and how many there are in all, most frequent reason first."""

    table: str
    newest: tuple[DeadLetter, ...]
    by_reason: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.by_reason.values())


def list_dead_letters(lake: Lake, spec: TableSpec, *, limit: int, pending: bool = False) -> DeadLetterList:
    """Read all dead letters once, and hold the newest `limit` of them.

    `pending` ones are those of a batch that was not published, because too many of its records were bad.

    Raises Misuse where there is no such table yet, ForeignTableError where others renamed or dropped its columns,
    CatalogError where it cannot be read.
    """
    view = lake.load(spec.dead_letters_identifier)
    if view is None:
        raise Misuse(
            f"the catalog has no table {spec.dead_letters_identifier}, which {spec.source_file} describes",
            hint="run `frazil materialize` first: it creates the table",
        )
    check_columns(view)
    reasons: Counter[str] = Counter()
    scans = list(_pending(view)) if pending else [TableScan(view, columns=COLUMNS)]
    newest = _newest(_counted((batch for scan in scans for batch in scan.slices()), reasons), limit)
    return DeadLetterList(spec.identifier, newest, dict(reasons.most_common()))


def _pending(view: TableView) -> Iterator[TableScan]:
    for batch_id, snapshot_id in pending_batches(view).items():
        yield TableScan(view, columns=COLUMNS, equal={"batch_id": batch_id}, snapshot_id=snapshot_id)


def _counted(batches: Iterable[pa.RecordBatch], reasons: Counter[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for each in pc.value_counts(batch.column("reason")).to_pylist():
            reasons[each["values"]] += each["counts"]
        yield batch


def _newest(batches: Iterable[pa.RecordBatch], limit: int) -> tuple[DeadLetter, ...]:
    kept: pa.Table | None = None
    for batch in batches:
        more = pa.Table.from_batches([batch])
        both = more if kept is None else pa.concat_tables([kept, more], promote_options="permissive")
        kept = both.sort_by(NEWEST_FIRST).slice(0, limit)
    return () if kept is None else tuple(DeadLetter(**row) for row in _within_years(kept).to_pylist())


def _within_years(letters: pa.Table) -> pa.Table:
    """The letters without timestamps before the year 1 or after 9999, which Python cannot hold."""
    stamps = letters.column("timestamp").cast(pa.int64())
    held = pc.and_(pc.greater_equal(stamps, FIRST_MICROS), pc.less_equal(stamps, LAST_MICROS))
    index = letters.schema.get_field_index("timestamp")
    whole = pc.if_else(pc.fill_null(held, False), letters.column("timestamp"), None)
    return letters.set_column(index, letters.schema.field(index), whole)


def preview(content: bytes | None, size: int = PREVIEW_BYTES) -> str:
    """The first bytes: as text where they are printable UTF-8, else as hexadecimal digits."""
    if content is None:
        return "null"
    shown = content[:size]
    more = "…" if len(content) > size else ""
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return f"0x{shown.hex()}{more}"
    return f'"{text}"{more}' if text.isprintable() else f"0x{shown.hex()}{more}"
