"""Records become rows of the table, dead letters, or records skipped because a setting says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobs.formats.arrow import project
from jobs.formats.framing import Group, group_by_schema_id
from jobs.materialize.ingest.writers import LookupsSpentError, NewSchemaError, Writers
from jobs.model.dead_letter import Reason, Reject
from jobs.model.errors import BadRecordLimitError
from jobs.model.ingested import StoppedBy, TaskContext
from jobs.model.records import Records, Wanted

Indexes = npt.NDArray[np.int64]

TOMBSTONE = "tombstone"
"""The reason under which skipped tombstones are counted."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A range ends before the record at `index`: its schema has to reach the table first, or the look-ups are spent."""

    index: int
    by: StoppedBy
    schema_id: int
    of_key: bool


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """What became of the first `read` records of a chunk. `rows` and `dead_letters` are in their tables' schemas."""

    read: int
    rows: pa.RecordBatch
    row_offsets: Indexes
    dead_letters: pa.RecordBatch | None
    dead_letters_by_reason: Mapping[str, int]
    skipped_by_reason: Mapping[str, int]
    truncated_nanos: int
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class _Part:
    """The values or the keys of a chunk, decoded: the columns of the accepted, in order, and who they are."""

    columns: list[pa.Array]
    accepted: Indexes | None
    """None: all of them."""
    rejects: tuple[Reject, ...]
    schema_ids: pa.Array | None
    truncated_nanos: int


class RecordDecoder:
    """Decodes the records of one task."""

    def __init__(
        self,
        context: TaskContext,
        *,
        row_schema: pa.Schema,
        dead_letter_schema: pa.Schema,
        values: Writers,
        keys: Writers,
        now: Callable[[], datetime],
    ) -> None:
        self._context = context
        self._spec = context.spec
        self._row_schema = row_schema
        self._dead_letter_schema = dead_letter_schema
        self._values = values
        self._keys = keys
        self._now = now
        prefix = self._spec.metadata.prefix
        self._metadata = {prefix + name: name for name in self._spec.metadata.keep if prefix + name in row_schema.names}
        self._record_schema = pa.schema([f for f in row_schema if f.name not in self._metadata])
        self._key_column = prefix + "key"
        self.wanted = Wanted(
            headers="headers" in self._spec.metadata.keep,
            timestamp_type="timestamp_type" in self._spec.metadata.keep,
            leader_epoch="leader_epoch" in self._spec.metadata.keep,
        )

    def decode(self, topic: str, partition: int, records: Records) -> DecodedRecords:
        """Sort out one chunk. Raises BadRecordLimitError where the spec says to stop at the first bad record."""
        stop = self._stop(records)
        if stop is not None:
            records = records.first(stop.index)
        values = self._decode_values(records)
        keys = self._decode_keys(records)
        accepted = _both(len(records), values.accepted, keys.accepted)
        rejects = {**{r.index: r for r in keys.rejects}, **{r.index: r for r in values.rejects}}
        skipped, dead = self._sort_out(topic, partition, records, rejects)
        chosen = _chosen(records.offsets, accepted)
        return DecodedRecords(
            read=len(records),
            rows=self._rows(topic, partition, records, values, keys, accepted),
            row_offsets=chosen,
            dead_letters=self._dead_letters(topic, partition, records, dead),
            dead_letters_by_reason=_by_reason(dead),
            skipped_by_reason=skipped,
            truncated_nanos=values.truncated_nanos + keys.truncated_nanos,
            stop=stop,
        )

    def _stop(self, records: Records) -> Stop | None:
        """The first record that must wait, whether for its value's schema or for its key's."""
        stop = _first_stop(self._values, records.values, of_key=False)
        if self._spec.key != "avro":
            return stop
        key_stop = _first_stop(self._keys, records.keys, of_key=True)
        stops = [each for each in (stop, key_stop) if each is not None]
        return min(stops, key=lambda each: each.index) if stops else None

    def _decode_values(self, records: Records) -> _Part:
        nulls_are_rows = self._spec.on_tombstone == "row"
        return self._decode_framed(records.values, self._values, self._record_schema, nulls_are_rows)

    def _decode_keys(self, records: Records) -> _Part:
        if self._key_column not in self._row_schema.names:
            return _Part([], None, (), None, 0)
        key_field = self._row_schema.field(self._key_column)
        if self._spec.key == "avro":
            return self._decode_avro_keys(records, key_field)
        if self._spec.key == "string":
            return _text_keys(records.keys, key_field)
        return _Part([pa.array(records.keys, key_field.type)], None, (), None, 0)

    def _decode_avro_keys(self, records: Records, key_field: pa.Field) -> _Part:
        inner = _key_schema(key_field)
        part = self._decode_framed(records.keys, self._keys, inner, True)
        column = _key_column(part.columns, inner, key_field, records.keys, part.accepted)
        rejects = tuple(
            Reject(r.index, Reason.BAD_KEY, f"{r.reason.value}: {r.detail}", f"{self._key_column}.{r.path}".rstrip("."))
            for r in part.rejects
        )
        return _Part([column], part.accepted, rejects, None, part.truncated_nanos)

    def _decode_framed(
        self, payloads: Sequence[bytes | None], writers: Writers, target: pa.Schema, nulls_are_rows: bool
    ) -> _Part:
        framed = group_by_schema_id(payloads)
        rejects = list(framed.unframed)
        pieces: list[tuple[Indexes | None, pa.RecordBatch, int | None]] = []
        nanos = 0
        for group in framed.groups:
            schema_id, chosen = group.schema_id, _indexes(group)
            decoder = writers.decoder(schema_id)
            if isinstance(decoder, Reason):
                everyone = range(len(payloads)) if chosen is None else chosen.tolist()
                rejects += [Reject(i, decoder, _unknown(decoder, schema_id)) for i in everyone]
                continue
            given = payloads if chosen is None else [payloads[i] for i in chosen.tolist()]
            decoded = decoder.decode(given, skip=5)  # type: ignore[arg-type]  # groups hold no nulls
            nanos += decoded.truncated_nanos
            rejects += [_at(r, chosen) for r in decoded.rejects]
            kept = _without(chosen, len(given), [r.index for r in decoded.rejects])
            pieces.append((kept, project(decoded.rows, target, self._context.former_names), schema_id))
        if framed.nulls and nulls_are_rows:
            nulls = np.asarray(framed.nulls, np.int64)
            pieces.append((nulls, _nulls(target, len(nulls)), None))
        elif framed.nulls:
            rejects += [Reject(i, Reason.NULL_VALUE, "the value is null") for i in framed.nulls]
        return _assemble(pieces, target, tuple(rejects), len(payloads), nanos)

    def _sort_out(
        self, topic: str, partition: int, records: Records, rejects: Mapping[int, Reject]
    ) -> tuple[dict[str, int], list[Reject]]:
        """Which of the refused records are skipped, counted by reason, and which are dead letters."""
        skipped: dict[str, int] = {}
        dead: list[Reject] = []
        for _, reject in sorted(rejects.items()):
            if reject.reason is Reason.NULL_VALUE and self._spec.on_tombstone == "skip":
                skipped[TOMBSTONE] = skipped.get(TOMBSTONE, 0) + 1
            elif reject.reason is Reason.NULL_VALUE or self._spec.on_bad_record == "dead_letter":
                dead.append(reject)
            elif self._spec.on_bad_record == "skip":
                skipped[reject.reason.value] = skipped.get(reject.reason.value, 0) + 1
            else:
                raise _bad_record(self._spec.identifier, topic, partition, records.offsets[reject.index], reject)
        return skipped, dead

    def _rows(
        self, topic: str, partition: int, records: Records, values: _Part, keys: _Part, accepted: Indexes | None
    ) -> pa.RecordBatch:
        by_name = dict(zip(self._record_schema.names, _narrow(values.columns, values.accepted, accepted), strict=True))
        count = len(records) if accepted is None else len(accepted)
        for column, name in self._metadata.items():
            field = self._row_schema.field(column)
            if name == "key":
                by_name[column] = _narrow(keys.columns, keys.accepted, accepted)[0]
            elif name == "schema_id":
                by_name[column] = _narrow([values.schema_ids], values.accepted, accepted)[0]
            elif name in ("topic", "partition"):
                constant = topic if name == "topic" else partition
                by_name[column] = pa.repeat(pa.scalar(constant, field.type), count)
            else:
                by_name[column] = _take(_about(records, name, field.type), accepted)
        return pa.RecordBatch.from_arrays([by_name[f.name] for f in self._row_schema], schema=self._row_schema)

    def _dead_letters(
        self, topic: str, partition: int, records: Records, dead: Sequence[Reject]
    ) -> pa.RecordBatch | None:
        if not dead:
            return None
        topic_id, generation = self._context.source_ids[topic]
        at, now, count = [r.index for r in dead], self._now(), len(dead)
        columns: dict[str, list[Any]] = {
            "topic": [topic] * count,
            "topic_id": [topic_id] * count,
            "generation": [generation] * count,
            "partition": [partition] * count,
            "offset": [records.offsets[i] for i in at],
            "timestamp": [_time(records.timestamps_ms[i]) for i in at],
            "key": [records.keys[i] for i in at],
            "value": [records.values[i] for i in at],
            "headers": [_headers(records.headers[i]) if records.headers else None for i in at],
            "reason": [r.reason.value for r in dead],
            "detail": [r.detail for r in dead],
            "path": [r.path for r in dead],
            "schema_id": [_framed_id(records.values[i]) for i in at],
            "batch_id": [self._context.batch_id] * count,
            "read_at": [now] * count,
        }
        schema = self._dead_letter_schema
        return pa.RecordBatch.from_arrays([_dead_column(columns[f.name], f.type) for f in schema], schema=schema)


def _indexes(group: Group) -> Indexes | None:
    return None if group.indexes is None else np.asarray(group.indexes.to_numpy(), np.int64)


def _first_stop(writers: Writers, payloads: Sequence[bytes | None], *, of_key: bool) -> Stop | None:
    first: Stop | None = None
    for group in group_by_schema_id(payloads).groups:
        schema_id, chosen = group.schema_id, _indexes(group)
        index = 0 if chosen is None else int(chosen[0])
        if first is not None and index > first.index:
            continue
        try:
            writers.decoder(schema_id)
        except NewSchemaError:
            first = Stop(index, "schema", schema_id, of_key)
        except LookupsSpentError:
            first = Stop(index, "lookups", schema_id, of_key)
    return first


def _assemble(
    pieces: list[tuple[Indexes | None, pa.RecordBatch, int | None]],
    target: pa.Schema,
    rejects: tuple[Reject, ...],
    count: int,
    nanos: int,
) -> _Part:
    """Pieces of several writer schemas as columns in the records' order."""
    ids = [pa.repeat(pa.scalar(i, pa.int32()), batch.num_rows) for _, batch, i in pieces]
    if len(pieces) == 1:
        indexes, batch, _ = pieces[0]
        return _Part(batch.columns, indexes, rejects, ids[0], nanos)
    if not pieces:
        empty = target.empty_table().to_batches() or [_nulls(target, 0)]
        return _Part(empty[0].columns, np.empty(0, np.int64), rejects, pa.array([], pa.int32()), nanos)
    order = np.concatenate([np.arange(count) if i is None else i for i, _, _ in pieces])
    sorting = pa.array(np.argsort(order, kind="stable"))
    together = pa.Table.from_batches([batch for _, batch, _ in pieces]).combine_chunks().take(sorting)
    columns = [_one(column) for column in together.columns]
    accepted = np.sort(order)
    return _Part(columns, accepted, rejects, _one(pa.chunked_array(ids).take(sorting)), nanos)


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)


def _without(chosen: Indexes | None, count: int, refused: Sequence[int]) -> Indexes | None:
    if not refused:
        return chosen
    kept = np.delete(np.arange(count), np.asarray(refused, np.int64))
    return kept if chosen is None else chosen[kept]


def _at(reject: Reject, chosen: Indexes | None) -> Reject:
    """A decoder counts within what it was given: the reject with its index in the chunk."""
    if chosen is None:
        return reject
    return Reject(int(chosen[reject.index]), reject.reason, reject.detail, reject.path)


def _both(count: int, one: Indexes | None, other: Indexes | None) -> Indexes | None:
    if one is None or other is None:
        return other if one is None else one
    return np.intersect1d(one, other, assume_unique=True)


def _narrow(columns: Sequence[pa.Array], have: Indexes | None, wanted: Indexes | None) -> list[pa.Array]:
    """Columns of the records `have`, cut down to the records `wanted`."""
    if wanted is None or have is wanted or (have is not None and len(have) == len(wanted)):
        return list(columns)
    places = wanted if have is None else np.searchsorted(have, wanted)
    return [column.take(pa.array(places)) for column in columns]


def _take(column: pa.Array, accepted: Indexes | None) -> pa.Array:
    return column if accepted is None else column.take(pa.array(accepted))


def _chosen(offsets: Sequence[int], accepted: Indexes | None) -> Indexes:
    every = np.asarray(offsets, np.int64)
    return every if accepted is None else every[accepted]


def _about(records: Records, name: str, arrow_type: pa.DataType) -> pa.Array:
    match name:
        case "offset":
            return pa.array(records.offsets, arrow_type)
        case "timestamp":
            return pa.array(records.timestamps_ms, pa.timestamp("ms", tz="UTC")).cast(arrow_type)
        case "timestamp_type":
            return pa.array(records.timestamp_types, arrow_type)
        case "leader_epoch":
            return pa.array(records.leader_epochs, arrow_type)
        case "headers":
            return pa.array([_headers(h) for h in records.headers], arrow_type)
        case "value":
            return pa.array(records.values, arrow_type)
        case _:
            raise ValueError(f"no metadata column is called {name}")


def _text_keys(keys: Sequence[bytes | None], field: pa.Field) -> _Part:
    try:
        return _Part([pa.array(keys, pa.binary()).cast(field.type)], None, (), None, 0)
    except pa.ArrowInvalid:
        rejects = tuple(r for r in (_bad_text(i, key) for i, key in enumerate(keys)) if r is not None)
    refused = {r.index for r in rejects}
    kept = [i for i in range(len(keys)) if i not in refused]
    column = pa.array([keys[i] for i in kept], pa.binary()).cast(field.type)
    return _Part([column], np.asarray(kept, np.int64), rejects, None, 0)


def _bad_text(index: int, key: bytes | None) -> Reject | None:
    try:
        (key or b"").decode()
    except UnicodeDecodeError as bad:
        return Reject(index, Reason.BAD_KEY, f"{Reason.BAD_UTF8.value}: {bad.reason} at byte {bad.start}", "")
    return None


def _key_schema(field: pa.Field) -> pa.Schema:
    """The columns that a key's schema maps to: the record's own, or the one column `value` of any other type."""
    if pa.types.is_struct(field.type):
        return pa.schema([field.type.field(n) for n in range(field.type.num_fields)])
    return pa.schema([field.with_name("value")])


def _key_column(
    columns: list[pa.Array],
    inner: pa.Schema,
    field: pa.Field,
    keys: Sequence[bytes | None],
    accepted: Indexes | None,
) -> pa.Array:
    if not pa.types.is_struct(field.type):
        return columns[0]
    chosen = keys if accepted is None else [keys[i] for i in accepted.tolist()]
    absent = pa.array([key is None for key in chosen])
    return pa.StructArray.from_arrays(columns, fields=list(inner), mask=absent)


def _headers(headers: Any) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": k, "value": v} for k, v in headers]


def _time(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def _dead_column(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(arrow_type) and values and not isinstance(values[0], datetime):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


def _framed_id(value: bytes | None) -> int | None:
    framed = value is not None and len(value) >= 5 and value[0] == 0
    return int.from_bytes(value[1:5], "big", signed=True) if framed and value is not None else None


def _unknown(reason: Reason, schema_id: int) -> str:
    if reason is Reason.UNKNOWN_SCHEMA_ID:
        return f"the registry has no schema with the id {schema_id}"
    return f"the schema {schema_id} is not an Avro schema"


def _by_reason(dead: Sequence[Reject]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reject in dead:
        counts[reject.reason.value] = counts.get(reject.reason.value, 0) + 1
    return counts


def _bad_record(table: str, topic: str, partition: int, offset: int, reject: Reject) -> BadRecordLimitError:
    where = f" at {reject.path}" if reject.path else ""
    return BadRecordLimitError(
        f"{table}: the record {topic}-{partition} offset {offset} cannot become a row:"
        f" {reject.reason.value}{where}: {reject.detail}",
        hint="`on_bad_record: stop` is set: mend the producer, or set `on_bad_record: dead_letter`",
    )


def now_utc() -> datetime:
    return datetime.now(UTC)
