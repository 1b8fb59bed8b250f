"""Records become rows of the table, dead letters, or records skipped because a setting says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import Framed
from frazil.formats.open import grouping_of, has_framing_headers, open_plain
from frazil.materialize.ingest.dead_rows import dead_rows, timestamps
from frazil.materialize.ingest.decoders import TaskDecoders
from frazil.materialize.ingest.isolate import Refused, blanked, isolating
from frazil.materialize.ingest.keys import bad_keys, decoded_keys, former_key_names, key_schema, plain_keys
from frazil.materialize.ingest.part_size import PartSize
from frazil.materialize.ingest.payloads import (
    CrowdedError,
    Indexes,
    Part,
    Stop,
    both,
    decode_framed,
    first_stop,
    narrow,
)
from frazil.materialize.ingest.placing import ByName, Place, nowhere
from frazil.materialize.layout import reads_keys_by_schema
from frazil.model.dead_letter import Reason, Reject
from frazil.model.errors import BadRecordLimitError
from frazil.model.ingested import TaskContext
from frazil.records import OptionalFields, Records

TOMBSTONE = "tombstone"
"""The reason under which skipped tombstones are counted."""

_NO_KEYS = Framed((), (), ())


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
    undeclared_fields: int
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Records of one partition, their values and Avro keys sorted by writer schema."""

    topic: str
    partition: int
    records: Records
    values: Framed
    keys: Framed


class RecordDecoder:
    """Decodes the records of one task."""

    def __init__(
        self,
        context: TaskContext,
        *,
        row_schema: pa.Schema,
        dead_letter_schema: pa.Schema,
        values: TaskDecoders,
        keys: TaskDecoders,
        now: Callable[[], datetime],
        place_values: Place | None = None,
        place_keys: Place | None = None,
    ) -> None:
        self.table = context.spec.identifier
        self.quotes_values = not context.spec.policies
        self._context = context
        self._spec = context.spec
        self._row_schema = row_schema
        self._dead_letter_schema = dead_letter_schema
        self._values = values
        self._keys = keys
        self._now = now
        kept, prefix = self._spec.metadata.keep, self._spec.metadata.prefix
        self._metadata = {prefix + name: name for name in kept if prefix + name in row_schema.names}
        self._record_schema = pa.schema([f for f in row_schema if f.name not in self._metadata])
        self._key_column = prefix + "key"
        self.group_values = grouping_of(self._spec.value, self._spec.wire_format)
        self._group_keys = grouping_of(self._spec.key, self._spec.wire_format, of_key=True)
        self._reads_keys_by_schema = reads_keys_by_schema(self._spec)
        self._reads_headers = "headers" in self._metadata.values() or has_framing_headers(self._spec)
        self._plain_keys = open_plain(self._spec.key, self._spec.key_settings)
        self._place_values = place_values or ByName(context.rows.identifier, self._record_schema, context.former_names)
        self._place_keys = place_keys or self._keys_by_name()
        self.optional_fields = OptionalFields(
            timestamp_type="timestamp_type" in kept, leader_epoch="leader_epoch" in kept
        )

    def _keys_by_name(self) -> Place:
        if not self._reads_keys_by_schema or self._key_column not in self._metadata:
            return nowhere
        field = self._row_schema.field(self._key_column)
        former_names = former_key_names(self._context.former_names, field)
        return ByName(self._context.rows.identifier, key_schema(field), former_names, of_key=True)

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[tuple[Records, DecodedRecords]]:
        """Sort out one chunk: in one part, or in several where its items would take too much memory together.

        The part with a stop is the last one. Raises BadRecordLimitError where the spec says to stop at the first bad
        record, IncompatibleSchemaError where the table lacks a column, and DefectError for a failure that is not of
        one record.
        """
        size = PartSize(len(records))
        while True:
            part = records.first(size.records)
            try:
                decoded = self._decode_part(topic, partition, part)
            except CrowdedError as crowded:
                size.crowded(crowded.fitting)
                continue
            yield part, decoded
            records = records.after(len(part))
            if decoded.stop is not None or not len(records):
                return
            size.fitted()

    def _decode_part(self, topic: str, partition: int, records: Records) -> DecodedRecords:
        where = f"{self._spec.identifier}: decoding {topic}-{partition}"
        decode = partial(self._decode, topic, partition)
        return isolating(decode, records, where=where, quotes_values=self.quotes_values)

    def _decode(self, topic: str, partition: int, records: Records, refused: Refused) -> DecodedRecords:
        given, refused = self._with_headers(records, refused)
        chunk = self._framed(topic, partition, blanked(given, refused))
        stop = self._stop(chunk)
        if stop is not None:
            given = given.first(stop.index)
            chunk = self._framed(topic, partition, blanked(given, refused))
        values, keys = self._decode_values(chunk), self._decode_keys(chunk)
        here = {index: reject for index, reject in refused.items() if index < len(given)}
        accepted = _except(here, both(values.accepted, keys.accepted), len(given))
        rejects = {**{r.index: r for r in keys.rejects}, **{r.index: r for r in values.rejects}, **here}
        skipped, dead = self._sort_out(chunk, rejects)
        offsets = given.offsets.to_numpy()
        return DecodedRecords(
            read=len(given),
            rows=self._rows(chunk, values, keys, accepted),
            row_offsets=offsets if accepted is None else offsets[accepted],
            dead_letters=dead_rows(
                self._context,
                schema=self._dead_letter_schema,
                topic=topic,
                partition=partition,
                records=given,
                dead=dead,
                now=self._now,
            ),
            dead_letters_by_reason=Counter(reject.reason.value for reject in dead),
            skipped_by_reason=skipped,
            truncated_nanos=values.truncated_nanos + keys.truncated_nanos,
            undeclared_fields=values.undeclared + keys.undeclared,
            stop=stop,
        )

    def _with_headers(self, records: Records, refused: Refused) -> tuple[Records, Refused]:
        """Headers are read where the table keeps them, or they name schemas: only there can they refuse a record."""
        if not self._reads_headers:
            return records, refused
        headers = records.headers.checked()
        column = self._spec.metadata.prefix + "headers"
        bad = {
            index: Reject(index, Reason.UNREADABLE_HEADERS, headers.problems[index].as_py(), column)
            for index in pc.indices_nonzero(headers.problems.is_valid()).to_pylist()
        }
        return replace(records, headers=headers), {**bad, **refused}

    def _framed(self, topic: str, partition: int, records: Records) -> _Chunk:
        keys = self._group_keys(records.keys, records.headers) if self._reads_keys_by_schema else _NO_KEYS
        return _Chunk(topic, partition, records, self.group_values(records.values, records.headers), keys)

    def _stop(self, chunk: _Chunk) -> Stop | None:
        """The first record that must wait, whether for its value's schema or for its key's."""
        found = (
            first_stop(self._values, chunk.values, of_key=False),
            first_stop(self._keys, chunk.keys, of_key=True),
        )
        return min((stop for stop in found if stop is not None), key=lambda stop: stop.index, default=None)

    def _decode_values(self, chunk: _Chunk) -> Part:
        return decode_framed(
            chunk.records.values,
            chunk.values,
            self._values,
            target=self._record_schema,
            place=self._place_values,
            nulls_are_rows=self._spec.on_tombstone == "row",
        )

    def _decode_keys(self, chunk: _Chunk) -> Part:
        if self._key_column not in self._metadata:
            return self._judge_keys(chunk)
        field, keys = self._row_schema.field(self._key_column), chunk.records.keys
        if self._spec.key == "none":
            return Part([keys.cast(field.type)], None, ())
        if self._plain_keys is not None:
            return plain_keys(keys, field, self._plain_keys)
        decoded = decode_framed(
            keys, chunk.keys, self._keys, target=key_schema(field), place=self._place_keys, nulls_are_rows=True
        )
        return decoded_keys(decoded, field, keys)

    def _judge_keys(self, chunk: _Chunk) -> Part:
        """Judge the keys of a table that has no key column yet: keys without a schema are refused already."""
        if not self._reads_keys_by_schema:
            return Part([], None, ())
        judged = decode_framed(
            chunk.records.keys, chunk.keys, self._keys, target=pa.schema([]), place=nowhere, nulls_are_rows=True
        )
        return Part([], judged.accepted, bad_keys(judged.rejects, self._key_column))

    def _sort_out(self, chunk: _Chunk, rejects: Mapping[int, Reject]) -> tuple[Counter[str], list[Reject]]:
        """Split refused records into skipped ones, counted by reason, and dead letters."""
        skipped: Counter[str] = Counter()
        dead: list[Reject] = []
        for _, reject in sorted(rejects.items()):
            tombstone = reject.reason is Reason.NULL_VALUE
            decided = tombstone or reject.reason is Reason.REFUSED_SCHEMA
            if tombstone and self._spec.on_tombstone == "skip":
                skipped[TOMBSTONE] += 1
            elif decided or self._spec.on_bad_record == "dead_letter":
                dead.append(reject)
            elif self._spec.on_bad_record == "skip":
                skipped[reject.reason.value] += 1
            else:
                raise self._stopped_at(chunk, reject)
        return skipped, dead

    def _rows(self, chunk: _Chunk, values: Part, keys: Part, accepted: Indexes | None) -> pa.RecordBatch:
        decoded = narrow(values.columns, values.accepted, accepted)
        by_name = dict(zip(self._record_schema.names, decoded, strict=True))
        for column, name in self._metadata.items():
            arrow_type = self._row_schema.field(column).type
            match name:
                case "key":
                    by_name[column] = narrow(keys.columns, keys.accepted, accepted)[0]
                case "schema_id" | "schema_uuid":
                    writers = values.writers.ids if name == "schema_id" else values.writers.uuids
                    by_name[column] = narrow([writers], values.accepted, accepted)[0].cast(arrow_type)
                case _:
                    about = _about(chunk, name, arrow_type)
                    by_name[column] = about if accepted is None else about.take(pa.array(accepted))
        return pa.RecordBatch.from_arrays([by_name[f.name] for f in self._row_schema], schema=self._row_schema)

    def _stopped_at(self, chunk: _Chunk, reject: Reject) -> BadRecordLimitError:
        where = f" at {reject.path}" if reject.path else ""
        return BadRecordLimitError(
            f"{self._spec.identifier}: the record {chunk.topic}-{chunk.partition} offset"
            f" {chunk.records.offsets[reject.index]} cannot become a row:"
            f" {reject.reason.value}{where}{'' if self._spec.policies else f': {reject.detail}'}",
            hint="`on_bad_record: stop` is set: fix the producer, or set `on_bad_record: dead_letter`",
        )


def _except(refused: Refused, accepted: Indexes | None, count: int) -> Indexes | None:
    """The accepted records but for those that are refused."""
    if not refused:
        return accepted
    everything = np.arange(count) if accepted is None else accepted
    return np.setdiff1d(everything, np.fromiter(refused, np.int64), assume_unique=True)


def _about(chunk: _Chunk, name: str, arrow_type: pa.DataType) -> pa.Array:
    """A metadata column of all the chunk's records."""
    records = chunk.records
    match name:
        case "topic" | "partition":
            value = chunk.topic if name == "topic" else chunk.partition
            return pa.repeat(pa.scalar(value, arrow_type), len(records))
        case "timestamp":
            return timestamps(records.timestamps_ms, arrow_type)
        case _:
            return _COLUMNS[name](records).cast(arrow_type)


_COLUMNS: Mapping[str, Callable[[Records], pa.Array]] = {
    "offset": lambda records: records.offsets,
    "timestamp_type": lambda records: records.timestamp_types,
    "headers": lambda records: records.headers.lists,
    "value": lambda records: records.values,
    "leader_epoch": lambda records: records.leader_epochs,
}


def now_utc() -> datetime:
    return datetime.now(UTC)
