"""One ingest task: its ranges are fetched, decoded and written; only its result makes the files count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from frazil.formats.open import embedded_schema
from frazil.materialize.ingest.dead_rows import DISTINCT, Letters
from frazil.materialize.ingest.decode import DecodedRecords, NewRows, RecordDecoder, open_records
from frazil.materialize.ingest.decoders import TaskSchemas, UnknownIds
from frazil.materialize.ingest.payloads import Stop
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import (
    FollowedRecords,
    IncompleteRecords,
    IngestTask,
    RangeResult,
    RouteFiles,
    RouteRows,
    StoppedBy,
    TaskContext,
    TaskResult,
    Truncates,
    WriteTarget,
)
from frazil.model.plan import OffsetRange
from frazil.model.progress import Counts
from frazil.model.schemas import in_order
from frazil.model.spec import TableSpec
from frazil.modes.followed import FollowedColumns
from frazil.modes.wanted import as_array
from frazil.ports import RecordReader, SchemaRegistry
from frazil.proof.tally import sums_of
from frazil.records import Records

GATHERED_LETTERS = 1 << 14
GATHERED_BYTES = 8 << 20
"""Dead letters of a range are written once there are so many, or they take so much memory."""


def ingest(task: IngestTask, *, reader: RecordReader, registry: SchemaRegistry) -> TaskResult:
    """Run one task. A failure leaves files that no table refers to; Frazil does not delete them."""
    context = task.context
    rows = [_files(context, table.rows, _following(table.spec, context)) for table in context.tables]
    dead_letters = _files(context, context.dead_letters, distinct=DISTINCT)
    unknown = UnknownIds(registry)
    schemas = TaskSchemas.of(context.spec, context.schemas, unknown, context.excluded)
    row_schemas = [each.arrow_schema for each in rows]
    decoder = open_records(context, schemas, rows=row_schemas, dead_letters=dead_letters.arrow_schema)
    work = _Work(context, decoder, rows, dead_letters, [[] for _ in rows])
    reads = reader.read(task.ranges, decoder.optional_fields)
    results = tuple(work.write(wanted, chunks) for wanted, chunks in zip(task.ranges, reads, strict=True))
    written = work.written()
    only = RouteFiles(()) if context.routes else written[0]
    return TaskResult(
        ranges=results,
        row_files=only.files,
        dead_letter_files=dead_letters.close(),
        unknown_schema_ids=in_order(unknown.found),
        truncated_nanos=work.truncated_nanos,
        undeclared_fields=work.undeclared_fields,
        route_files=written if context.routes else (),
        followed=only.followed,
        deletes=only.deletes,
        incomplete=tuple(work.incomplete),
        truncates=tuple(work.truncates),
        embedded=tuple(_embedded(results)),
    )


def _embedded(results: Sequence[RangeResult]) -> Iterator[str]:
    """Yield the texts of the new schemas that records have in them."""
    for each in results:
        ids = (*each.met_schema_ids, *each.met_key_schema_ids, *each.ahead_schema_ids, *each.ahead_key_schema_ids)
        yield from (schema.text for schema_id in ids if (schema := embedded_schema(schema_id)) is not None)


def _following(spec: TableSpec, context: TaskContext) -> FollowedColumns | None:
    return FollowedColumns.of(spec, context.partition_numbers) if spec.follows_keys else None


def _files(
    context: TaskContext,
    target: WriteTarget,
    following: FollowedColumns | None = None,
    distinct: Collection[str] = (),
) -> DataFileWriter:
    return DataFileWriter(
        target,
        storage=context.storage,
        prefix=context.file_prefix,
        target_bytes=context.spec.maintain.target_file_bytes,
        following=following,
        distinct=distinct,
    )


@dataclass(slots=True)
class _Work:
    """The decoder and files that the ranges of one task share."""

    context: TaskContext
    decoder: RecordDecoder
    rows: Sequence[DataFileWriter]
    dead_letters: DataFileWriter
    deletes: Sequence[list[FollowedRecords]]
    truncated_nanos: int = 0
    undeclared_fields: int = 0
    incomplete: list[IncompleteRecords] = field(default_factory=list)
    truncates: list[Truncates] = field(default_factory=list)
    letters: list[Letters] = field(default_factory=list)
    letters_held: int = 0
    letter_bytes_held: int = 0

    def written(self) -> tuple[RouteFiles, ...]:
        """Return what was written for each table, whose files end."""
        closed = [(each.close(), tuple(each.followed)) for each in self.rows]
        return tuple(RouteFiles(*each, tuple(deletes)) for each, deletes in zip(closed, self.deletes, strict=True))

    def write(self, wanted: OffsetRange, chunks: Iterator[Records]) -> RangeResult:
        tally = _Tally(wanted, [RouteRows() for _ in self.rows], has_shapes=self.context.has_shapes)
        for chunk in chunks:
            for records, decoded in self.decoder.decode(wanted.topic, wanted.partition, tally.affordable(chunk)):
                with self.decoder.defects_named(wanted.topic, wanted.partition, records):
                    for files, new in zip(self.rows, decoded.tables, strict=True):
                        files.add(new.rows)
                for deletes, new in zip(self.deletes, decoded.tables, strict=True):
                    deletes.extend(() if new.deletes is None else (new.deletes,))
                self.incomplete += decoded.incomplete
                if len(decoded.truncates):
                    self.truncates.append(Truncates(wanted.partition, as_array(decoded.truncates)))
                self.truncated_nanos += decoded.truncated_nanos
                self.undeclared_fields += decoded.undeclared_fields
                tally.add(records, decoded)
                if decoded.letters is not None:
                    self._gather(decoded.letters)
            if tally.stop is not None or tally.spent:
                break
        self._write_letters()
        return replace(tally.result(), routes=tuple(tally.tables)) if self.context.routes else tally.result()

    def _gather(self, letters: Letters) -> None:
        """Keep the letters of a chunk until there are many, or the range ends."""
        self.letters.append(letters)
        self.letters_held += len(letters)
        self.letter_bytes_held += letters.memory
        if self.letters_held >= GATHERED_LETTERS or self.letter_bytes_held >= GATHERED_BYTES:
            self._write_letters()

    def _write_letters(self) -> None:
        if not self.letters:
            return
        letters = Letters.joined(self.letters)
        self.letters, self.letters_held, self.letter_bytes_held = [], 0, 0
        with self.decoder.defects_named(letters.topic, letters.partition, letters.records):
            self.dead_letters.add(letters.rows())


def _rows_of(new: NewRows) -> RouteRows:
    return RouteRows(new.rows.num_rows, sums_of(new.offsets), 0 if new.deletes is None else len(new.deletes))


@dataclass(slots=True)
class _Tally:
    """Counts one range while it is read. With shapes, the counts are those of the first table."""

    wanted: OffsetRange
    tables: list[RouteRows]
    has_shapes: bool
    counts: Counts = field(default_factory=Counts)
    end: int = -1
    payload_bytes: int = 0
    chunk: Records | None = None
    chunk_bytes: int = 0
    leader_epoch: int | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    stop: Stop | None = None

    @property
    def spent(self) -> bool:
        return self.payload_bytes >= self.wanted.max_bytes

    def affordable(self, records: Records) -> Records:
        """The records up to the one that reaches the range's budget of bytes; what is left belongs to other ranges."""
        left = self.wanted.max_bytes - self.payload_bytes
        self.chunk, self.chunk_bytes = records, records.payload_bytes
        if self.chunk_bytes > left:
            ends = records.sizes.cumsum()
            count = int(ends.searchsorted(left)) + 1
            self.chunk, self.chunk_bytes = records.first(count), int(ends[count - 1])
        return self.chunk

    def add(self, records: Records, decoded: DecodedRecords) -> None:
        self.stop = decoded.stop
        read = records if decoded.stop is None else records.first(decoded.read)
        self.end = read.next_offset
        new = [_rows_of(each) for each in decoded.tables]
        counted = self._counted(new)
        self.counts = self.counts + Counts(
            read=decoded.read,
            rows=counted.rows,
            deletes=len(decoded.truncates) + counted.deletes,
            dead_letters=sum(decoded.dead_letters_by_reason.values()),
            skipped=sum(decoded.skipped_by_reason.values()),
        )
        self.tables = [table + more for table, more in zip(self.tables, new, strict=True)]
        self.skipped.update(decoded.skipped_by_reason)
        self.dead.update(decoded.dead_letters_by_reason)
        self.payload_bytes += self.chunk_bytes if read is self.chunk else read.payload_bytes
        if len(read):
            self.leader_epoch = records.last_leader_epoch

    def result(self) -> RangeResult:
        end = max(self.end, self.wanted.start)
        result = RangeResult(
            topic=self.wanted.topic,
            partition=self.wanted.partition,
            start=self.wanted.start,
            end=end,
            stopped_by=self._stopped_by(end),
            counts=self.counts,
            sums=self._counted(self.tables).sums,
            gaps=end - self.wanted.start - self.counts.read,
            payload_bytes=self.payload_bytes,
            leader_epoch=self.leader_epoch,
            skipped_by_reason=dict(self.skipped),
            dead_letters_by_reason=dict(self.dead),
        )
        if self.stop is None or self.stop.by != "schema":
            return result
        met, ahead = (self.stop.schema_id,), self.stop.ahead
        if self.stop.of_key:
            return replace(result, met_key_schema_ids=met, ahead_key_schema_ids=ahead)
        return replace(result, met_schema_ids=met, ahead_schema_ids=ahead)

    def _counted(self, tables: Sequence[RouteRows]) -> RouteRows:
        return tables[0] if self.has_shapes else sum(tables, RouteRows())

    def _stopped_by(self, end: int) -> StoppedBy:
        if self.stop is not None:
            return self.stop.by
        return "end" if end >= self.wanted.end else "bytes"
