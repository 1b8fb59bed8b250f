"""Records become rows of the table, dead letters, or records skipped because a setting says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import NO_INDEXES, Indexes
from frazil.formats.framing import Framed
from frazil.formats.open import grouping_of, has_framing_headers
from frazil.formats.rejects import Rejects
from frazil.materialize.ingest.dead_rows import Letters, LetterTable
from frazil.materialize.ingest.decoders import TaskSchemas
from frazil.materialize.ingest.erased import ErasedRecords
from frazil.materialize.ingest.isolate import Refused, blanked, defect, isolating
from frazil.materialize.ingest.part_size import PartSize
from frazil.materialize.ingest.payloads import CrowdedError, Stop
from frazil.materialize.ingest.routing import Router
from frazil.materialize.ingest.table_rows import Chunk, TableDecoder, TableRows
from frazil.materialize.layout import reads_keys_by_schema
from frazil.model.dead_letter import Reason, Reject
from frazil.model.erasures import ERASED
from frazil.model.errors import BadRecordLimitError
from frazil.model.ingested import FollowedRecords, IncompleteRecords, TaskContext
from frazil.modes.wanted import as_numbers
from frazil.records import OptionalFields, Records

TOMBSTONE = "tombstone"
"""The reason under which skipped tombstones are counted."""

_NO_KEYS = Framed((), (), ())


@dataclass(frozen=True, slots=True)
class NewRows:
    """The rows that a chunk adds to one table, in its schema, and their offsets.

    `deletes` are the records that delete an identity, in a table that follows keys; None if there is none.
    """

    rows: pa.RecordBatch
    offsets: Indexes
    deletes: FollowedRecords | None = None


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """What became of the first `read` records of a chunk. `letters` are those that became dead letters.

    `incomplete` are those whose rows take values from others, `truncates` the offsets of those that take out all rows.
    """

    read: int
    tables: tuple[NewRows, ...]
    letters: Letters | None
    dead_letters_by_reason: Mapping[str, int]
    skipped_by_reason: Mapping[str, int]
    truncated_nanos: int
    undeclared_fields: int
    stop: Stop | None
    incomplete: tuple[IncompleteRecords, ...] = ()
    truncates: Indexes = field(default_factory=lambda: NO_INDEXES)

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows of a table without a group."""
        (only,) = self.tables
        return only.rows

    @property
    def row_offsets(self) -> Indexes:
        """The offsets of these rows."""
        (only,) = self.tables
        return only.offsets

    @property
    def deletes(self) -> FollowedRecords | None:
        """The deletes of a table without a group."""
        (only,) = self.tables
        return only.deletes

    @property
    def dead_letters(self) -> pa.RecordBatch | None:
        """The dead letters in their table's schema; None if there is none."""
        return None if self.letters is None else self.letters.rows()

    def of_table(self, place: int) -> DecodedRecords:
        """Return what became of the records in one table of a group."""
        return replace(self, tables=(self.tables[place],))


class RecordDecoder:
    """Decodes the records of one task: onto one table, or onto those of a group, between which `router` decides.

    Without a router, each table of a group gets every record: these are shapes. `erased` are those of each table, or
    none: then no record is skipped because of an erasure.
    """

    def __init__(
        self,
        context: TaskContext,
        *,
        tables: Sequence[TableDecoder],
        dead_letter_schema: pa.Schema,
        now: Callable[[], datetime],
        router: Router | None = None,
        erased: Sequence[ErasedRecords] = (),
    ) -> None:
        spec = context.spec
        self.table = spec.identifier
        self.quotes_values = context.policed is None
        self._spec = spec
        self._tables = tuple(tables)
        self._router = router
        self._erased = tuple(erased) if any(each.has_any for each in erased) else ()
        self._has_shapes = router is None and len(tables) > 1
        self._letters = LetterTable(context, dead_letter_schema, now)
        self.group_values = grouping_of(spec.value, spec.wire_format)
        self._group_keys = grouping_of(spec.key, spec.wire_format, of_key=True)
        self._reads_keys_by_schema = reads_keys_by_schema(spec)
        self._reads_headers = (
            any(table.keeps_headers for table in tables)
            or has_framing_headers(spec)
            or (router is not None and router.reads_headers)
        )
        kept = spec.metadata.keep
        self.optional_fields = OptionalFields(
            timestamp_type="timestamp_type" in kept, leader_epoch="leader_epoch" in kept
        )

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

    @contextmanager
    def defects_named(self, topic: str, partition: int, records: Records) -> Iterator[None]:
        """Convert errors that the values of decoded records cause while they are written into defects.

        Defects are not retried, unlike errors of storage, and quote no value if the spec has policies.
        """
        try:
            yield
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as problem:
            where = f"{self.table}: writing {topic}-{partition}"
            if not self.quotes_values:
                raise defect(where, records, problem, quotes_values=False) from None
            raise defect(where, records, problem) from problem

    def _decode_part(self, topic: str, partition: int, records: Records) -> DecodedRecords:
        where = f"{self._spec.identifier}: decoding {topic}-{partition}"
        decode = partial(self._decode, topic, partition)
        return isolating(decode, records, where=where, quotes_values=self.quotes_values)

    def _decode(self, topic: str, partition: int, records: Records, refused: Refused) -> DecodedRecords:
        given, refused = self._with_headers(records, refused)
        chunk = self._framed(topic, partition, blanked(given, refused))
        stop = self._tables[0].stop(chunk)
        if stop is not None:
            given = given.first(stop.index)
            chunk = self._framed(topic, partition, blanked(given, refused))
        here = {index: reject for index, reject in refused.items() if index < len(given)}
        parts, unrouted = self._divided(chunk)
        decoded = [table.decode(part, here) for table, part in zip(self._tables, parts, strict=True)]
        rejects = Rejects.joined(each.rejects for each in decoded)
        if self._has_shapes:
            decoded = [each.without(rejects.indexes, given.offsets) for each in decoded]
        every = Rejects.joined([rejects, unrouted.values(), here.values()]).in_order()
        erased = self._erased_among(topic, partition, decoded, every, given.offsets)
        decoded = [each.without(erased, given.offsets) for each in decoded]
        skipped, dead = self._sort_out(chunk, every.without(erased))
        for each in decoded:
            skipped.update(each.skipped)
        skipped.update({ERASED: len(erased)} if len(erased) else {})
        offsets, count = given.offsets.to_numpy(), max if self._has_shapes else sum
        return DecodedRecords(
            read=len(given),
            tables=tuple(
                NewRows(each.rows, offsets if each.accepted is None else offsets[each.accepted], each.deletes)
                for each in decoded
            ),
            letters=self._letters.letters(topic, partition, given, dead),
            dead_letters_by_reason=dict(Counter(dead.reasons)),
            skipped_by_reason=skipped,
            truncated_nanos=count(each.truncated_nanos for each in decoded),
            undeclared_fields=count(each.undeclared for each in decoded),
            stop=stop,
            incomplete=tuple(some for each in decoded for some in each.incomplete),
            truncates=np.concatenate([each.truncates for each in decoded]),
        )

    def _erased_among(
        self, topic: str, partition: int, decoded: Sequence[TableRows], rejects: Rejects, offsets: pa.Int64Array
    ) -> Indexes:
        """Return the indexes of the records with a value, or a dead letter, that was erased from any of the tables.

        A dead letter that is an event without a row by now is counted as such.
        """
        if not self._erased:
            return NO_INDEXES
        found, every = [NO_INDEXES], offsets.to_numpy()
        for table, erased in zip(decoded, self._erased, strict=True):
            accepted = np.arange(len(every)) if table.accepted is None else table.accepted
            found.append(accepted[erased.among(topic, partition, table.rows, every[accepted])])
            letters = erased.letters_among(topic, partition, every)
            if len(letters):
                deletes = NO_INDEXES if table.deletes is None else as_numbers(table.deletes.offset)
                counted = np.isin(letters, np.concatenate([accepted, rejects.indexes])) | np.isin(
                    every[letters], deletes
                )
                found.append(letters[counted])
        return np.unique(np.concatenate(found))

    def _divided(self, chunk: Chunk) -> tuple[Sequence[Chunk], Refused]:
        """Return what each table decodes, and why the other records are in no table."""
        if self._router is None:
            return [chunk] * len(self._tables), {}
        divided = self._router.divide(chunk.records.values, chunk.values, chunk.records.headers)
        parts = [
            replace(chunk, values=values, route=divided.taken_by(place)) for place, values in enumerate(divided.framed)
        ]
        return parts, divided.rejects

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

    def _framed(self, topic: str, partition: int, records: Records) -> Chunk:
        keys = self._group_keys(records.keys, records.headers) if self._reads_keys_by_schema else _NO_KEYS
        return Chunk(topic, partition, records, self.group_values(records.values, records.headers), keys)

    def _sort_out(self, chunk: Chunk, rejects: Rejects) -> tuple[Counter[str], Rejects]:
        """Split refused records into skipped ones, counted by reason, and dead letters."""
        skipped: Counter[str] = Counter()
        skips_tombstones = self._spec.on_tombstone == "skip" and Reason.NULL_VALUE.value in rejects.reasons
        if self._spec.on_bad_record == "dead_letter" and not skips_tombstones:
            return skipped, rejects
        dead: list[Reject] = []
        for reject in rejects:
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
        return skipped, Rejects.of(dead)

    def _stopped_at(self, chunk: Chunk, reject: Reject) -> BadRecordLimitError:
        where = f" at {reject.path}" if reject.path else ""
        return BadRecordLimitError(
            f"{self._spec.identifier}: the record {chunk.topic}-{chunk.partition} offset"
            f" {chunk.records.offsets[reject.index]} cannot become a row:"
            f" {reject.reason.value}{where}{f': {reject.detail}' if self.quotes_values else ''}",
            hint="`on_bad_record: stop` is set: fix the producer, or set `on_bad_record: dead_letter`",
        )


def open_records(
    context: TaskContext, schemas: TaskSchemas, *, rows: Sequence[pa.Schema], dead_letters: pa.Schema
) -> RecordDecoder:
    """Return the decoder of a task. `rows` are the columns of its tables."""
    spec = context.spec
    tables = [
        TableDecoder(
            table.spec,
            table=table.rows.identifier,
            row_schema=columns,
            schemas=schemas,
            former_names=table.former_names,
            numbers=context.partition_numbers,
        )
        for table, columns in zip(context.tables, rows, strict=True)
    ]
    erased = [
        ErasedRecords(
            table.rows.properties,
            context.erasure_key,
            columns=columns,
            former_names=table.former_names,
            generations={topic: generation for topic, (_, generation) in context.source_ids.items()},
        )
        for table, columns in zip(context.tables, rows, strict=True)
    ]
    routes = [] if context.has_shapes else [table.route for table in context.routes]
    settings = [table.spec.value_settings for table in context.tables]
    router = Router(routes, schemas.values, settings, spec.wire_format) if routes else None
    return RecordDecoder(
        context, tables=tables, dead_letter_schema=dead_letters, now=now_utc, router=router, erased=erased
    )


def now_utc() -> datetime:
    return datetime.now(UTC)
