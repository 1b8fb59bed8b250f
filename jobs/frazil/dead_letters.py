"""Reads a table's dead letters: how many there are of each reason and schema, and the newest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.dead_letter_checks import check_columns
from frazil.materialize.dead_letter_marks import (
    EPOCH_COLUMN,
    MARK_READ,
    LiveReplays,
    Source,
    has_marks,
    is_unmarked,
    marked_offsets,
)
from frazil.materialize.dead_letters import pending_batches
from frazil.materialize.layout import ADDED_DEAD_LETTER_COLUMNS
from frazil.materialize.letter_encryption import decrypted, key_id_of
from frazil.model.errors import Misuse
from frazil.model.moments import rfc3339
from frazil.model.schemas import SchemaId
from frazil.model.secret import NamedKey
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake

NEWEST_FIRST = [("read_at", "descending"), ("topic", "ascending"), ("partition", "ascending"), ("offset", "descending")]
PREVIEW_BYTES = 48
FIRST_MICROS = -62_135_596_800 * 10**6
LAST_MICROS = 253_402_300_800 * 10**6 - 1
"""The years 1 to 9999 as microseconds since the epoch."""


Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """The replay that turned a dead letter into a row: when, its batch, and the snapshot of the table of rows."""

    at: datetime
    batch_id: str
    snapshot_id: int

    def to_json(self) -> dict[str, Any]:
        return {"at": rfc3339(self.at), "batch_id": self.batch_id, "snapshot_id": self.snapshot_id}


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
    headers: Headers
    schema_uuid: str | None = None
    replayed: Mark | None = None
    of_former_table: bool = False
    """Whether a former table of this name read it, one that was dropped or replaced. Replays leave such letters."""

    @property
    def encrypted_with(self) -> str | None:
        """The id of the key that encrypts the letter, or None."""
        return key_id_of(self.detail)

    @property
    def record(self) -> str:
        return record_name(self.topic, self.partition, self.offset)

    def to_json(self) -> dict[str, Any]:
        """Bytes as hexadecimal digits, whole."""
        value: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS}
        for name in ("timestamp", "read_at"):
            value[name] = None if value[name] is None else rfc3339(value[name])
        for name in ("key", "value"):
            value[name] = _hex(value[name])
        value["replayed"] = None if self.replayed is None else self.replayed.to_json()
        value["of_former_table"] = self.of_former_table
        value["headers"] = [{"key": name, "value": _hex(content)} for name, content in self.headers]
        return {"record": self.record, **value}


COLUMNS = tuple(name for name in DeadLetter.__dataclass_fields__ if name not in ("replayed", "of_former_table"))
ADDED = tuple(column.name for column in ADDED_DEAD_LETTER_COLUMNS if column.name in COLUMNS)
"""The columns that tables of earlier releases lack: they are read as nulls."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which dead letters are meant: those with a reason, with a schema, of one record, or all.

    `schema_id` is that of the value; `record` is a topic, a partition and an offset.
    """

    reason: str | None = None
    schema_id: SchemaId | None = None
    record: tuple[str, int, int] | None = None

    def equal(self) -> dict[str, object]:
        """Return the values that columns must have."""
        topic, partition, offset = self.record or (None, None, None)
        by_uuid = isinstance(self.schema_id, UUID)
        wanted: dict[str, object] = {"reason": self.reason}
        wanted["schema_uuid" if by_uuid else "schema_id"] = str(self.schema_id) if by_uuid else self.schema_id
        wanted |= {"topic": topic, "partition": partition, "offset": offset}
        return {name: value for name, value in wanted.items() if value is not None}


EVERY = Chosen()
SOURCE = ("generation", "table_uuid")
"""What says which letter a mark is about, beside its topic, partition and offset."""
GROUPED = ("reason", "schema_id", "schema_uuid", "read_at", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """How many dead letters have one reason and one schema of values; `newest` is the record of the newest."""

    reason: str
    schema_id: int | None
    count: int
    newest: str
    schema_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterList:
    """The newest, and the groups of all, largest first. `replayed` is how many more were replayed.

    Each of these is a row, unless the table `follows_keys`. `former` is how many more are of tables that had this name.
    """

    table: str
    newest: tuple[DeadLetter, ...]
    groups: tuple[DeadLetterGroup, ...]
    replayed: int = 0
    follows_keys: bool = False
    former: int = 0

    @property
    def total(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def by_reason(self) -> dict[str, int]:
        """The number of each reason, most frequent first."""
        reasons: Counter[str] = Counter()
        for group in self.groups:
            reasons[group.reason] += group.count
        return dict(reasons.most_common())


def list_dead_letters(
    lake: Lake,
    spec: TableSpec,
    *,
    limit: int,
    chosen: Chosen = EVERY,
    pending: bool = False,
    replayed: bool = False,
) -> DeadLetterList:
    """Read the chosen dead letters once, and hold the newest `limit` of them.

    Those that a replay turned into rows, and those of former tables of this name, are only counted, unless `replayed`
    is true.

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
    newest: pa.Table | None = None
    groups: pa.Table | None = None
    rows = lake.load(spec.identifier)
    marks = _Marks.of(view, rows)
    rows_by_now = former = 0
    for scan in _scans(view, chosen, pending=pending):
        for batch in scan.slices():
            of_records = marks.without_marks(batch)
            if rows is not None and not replayed:
                every, of_records = of_records, _of_table(of_records, rows.uuid)
                former += every.num_rows - of_records.num_rows
            unmarked = marks.unmarked(of_records)
            rows_by_now += of_records.num_rows - unmarked.num_rows
            letters = _with_added(pa.Table.from_batches([of_records if replayed else unmarked]))
            newest = _together(newest, letters).sort_by(NEWEST_FIRST).slice(0, limit)
            groups = _grouped(_together(groups, letters.select(GROUPED).append_column("count", _ones(letters))))
    found = _letters(newest, marks, None if rows is None else rows.uuid), _groups(groups)
    return DeadLetterList(spec.pipeline.name, *found, rows_by_now, follows_keys=spec.follows_keys, former=former)


def _of_table(letters: pa.RecordBatch, rows_uuid: str) -> pa.RecordBatch:
    """Return the letters of the table of rows that has the name now."""
    return letters.filter(pc.equal(letters.column("table_uuid"), rows_uuid))


def _scans(view: TableView, chosen: Chosen, *, pending: bool) -> Iterator[TableScan]:
    there = {column.name for column in view.columns}
    columns = [name for name in (*COLUMNS, *SOURCE) if name not in ADDED or name in there]
    columns += [EPOCH_COLUMN] if EPOCH_COLUMN in there else []
    if not chosen.equal().keys() <= there:
        return
    if not pending:
        yield TableScan(view, columns=columns, equal=chosen.equal())
        return
    for batch_id, snapshot_id in pending_batches(view).items():
        equal = {"batch_id": batch_id, **chosen.equal()}
        yield TableScan(view, columns=columns, equal=equal, snapshot_id=snapshot_id)


@dataclass(frozen=True, slots=True)
class _Marks:
    """The marks of the replays that the table of rows has, and the letters that they are about."""

    rows_uuid: str
    table: pa.Table | None
    offsets: Mapping[Source, BitMap64]

    @staticmethod
    def of(view: TableView, rows: TableView | None) -> _Marks:
        if rows is None or not has_marks(view):
            return NO_MARKS
        replays = LiveReplays.of(rows)
        columns = (*MARK_READ, "replayed_at", "replayed_snapshot_id")
        scan = TableScan(view, columns=columns, equal={"table_uuid": rows.uuid}, present=(EPOCH_COLUMN,))
        found = [batch.filter(replays.have(batch)) for batch in scan.slices()]
        return _Marks(rows.uuid, pa.Table.from_batches(found) if found else None, marked_offsets(found, replays))

    def without_marks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the dead letters of a batch."""
        if EPOCH_COLUMN not in batch.schema.names:
            return batch
        letters = batch.filter(batch.column(EPOCH_COLUMN).is_null())
        return letters.select([name for name in letters.schema.names if name != EPOCH_COLUMN])

    def unmarked(self, letters: pa.RecordBatch) -> pa.RecordBatch:
        """Return those that are no rows."""
        of_others = pc.fill_null(pc.not_equal(letters.column("table_uuid"), self.rows_uuid), True)
        return letters.filter(pc.or_(pa.array(is_unmarked(letters, self.offsets)), of_others))

    def about(self, letter: Mapping[str, Any]) -> Mark | None:
        """Return the mark of a letter, given as a row with its table and generation."""
        if self.table is None or letter["table_uuid"] != self.rows_uuid:
            return None
        place = [pc.equal(self.table.column(name), letter[name]) for name in MARK_READ[:4]]
        found = self.table.filter(pc.and_(pc.and_(place[0], place[1]), pc.and_(place[2], place[3]))).to_pylist()
        return Mark(found[0]["replayed_at"], found[0]["batch_id"], found[0]["replayed_snapshot_id"]) if found else None


NO_MARKS = _Marks("", None, {})


def _with_added(letters: pa.Table) -> pa.Table:
    """Return the letters with nulls in the columns that their table lacks."""
    for name in ADDED:
        if name not in letters.column_names:
            letters = letters.append_column(name, pa.nulls(len(letters), pa.string()))
    return letters


def _together(earlier: pa.Table | None, later: pa.Table) -> pa.Table:
    return later if earlier is None else pa.concat_tables([earlier, later], promote_options="permissive")


def _ones(letters: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int64()), len(letters))


def _grouped(letters: pa.Table) -> pa.Table:
    """Add up the counts of each reason and schema, beside the place of the newest."""
    by = ["reason", "schema_id", "schema_uuid"]
    others = [name for name in GROUPED if name not in by]
    adding: list[tuple[str, str]] = [("count", "sum"), *((name, "first") for name in others)]
    found = letters.sort_by(NEWEST_FIRST).group_by(by, use_threads=False).aggregate(adding)
    return found.rename_columns({f"{name}_{how}": name for name, how in adding})


def _groups(found: pa.Table | None) -> tuple[DeadLetterGroup, ...]:
    rows = [] if found is None else found.select([*GROUPED, "count"]).drop(["read_at"]).to_pylist()
    groups = (
        DeadLetterGroup(
            reason=row["reason"],
            schema_id=row["schema_id"],
            count=row["count"],
            newest=record_name(row["topic"], row["partition"], row["offset"]),
            schema_uuid=row["schema_uuid"],
        )
        for row in rows
    )
    return tuple(
        sorted(groups, key=lambda group: (-group.count, group.reason, group.schema_id or -1, group.schema_uuid or ""))
    )


def _letters(found: pa.Table | None, marks: _Marks, rows_uuid: str | None) -> tuple[DeadLetter, ...]:
    rows = [] if found is None else _within_years(found).to_pylist()
    return tuple(
        DeadLetter(
            **{name: value for name, value in row.items() if name not in (*SOURCE, "headers")},
            headers=_headers(row["headers"]),
            replayed=marks.about(row),
            of_former_table=rows_uuid is not None and row["table_uuid"] != rows_uuid,
        )
        for row in rows
    )


def _headers(found: Sequence[Mapping[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in found or ())


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def decrypted_letter(letter: DeadLetter, key: NamedKey | None) -> DeadLetter:
    """Return a letter as its record was. Raises SettingError if it is encrypted with another key."""
    if letter.encrypted_with is None:
        return letter
    headers = [{"key": name, "value": content} for name, content in letter.headers] or None
    found = decrypted({**{name: getattr(letter, name) for name in COLUMNS}, "headers": headers}, key)
    return replace(letter, **{**found, "headers": _headers(found["headers"])})


def why_deleted(spec: TableSpec) -> str:
    """Return the rest of a sentence about missing dead letters: old ones are deleted, if the spec says so."""
    kept = spec.maintain.keep_dead_letters
    if kept is None:
        return ""
    days = f"{kept / timedelta(days=1):g} days"
    return f"; those that were read more than {days} ago are deleted (`maintain.keep_dead_letters`)"


def record_name(topic: str, partition: int, offset: int) -> str:
    """Return a record as the commands write it, which `record_named` reads."""
    return f"{topic}-{partition}@{offset}"


def record_named(text: str) -> tuple[str, int, int]:
    """Return the topic, the partition and the offset of `topic-partition@offset`. Raises Misuse for another text."""
    place, _, offset = text.rpartition("@")
    topic, _, partition = place.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise Misuse(
            f"{text} names no record: expected topic-partition@offset, such as orders-0@1234",
            hint="`frazil dead-letters list TABLE` shows each record in this form",
        )
    return topic, int(partition), int(offset)


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
