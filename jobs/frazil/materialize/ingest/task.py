"""One ingest task: its ranges are fetched, decoded and written; only its result makes the files count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from frazil.materialize.ingest.decode import DecodedRecords, RecordDecoder, now_utc
from frazil.materialize.ingest.decoders import TaskDecoders, UnknownIds
from frazil.materialize.ingest.payloads import Indexes, Stop
from frazil.materialize.ingest.table_rows import TableDecoder
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import IngestTask, RangeResult, StoppedBy, TaskContext, TaskResult
from frazil.model.plan import OffsetRange
from frazil.model.progress import Counts, OffsetSums
from frazil.model.schemas import in_order
from frazil.ports import RecordReader, SchemaRegistry
from frazil.records import Records


def ingest(task: IngestTask, *, reader: RecordReader, registry: SchemaRegistry) -> TaskResult:
    """Run one task. A failure leaves files that no table refers to; Frazil does not delete them."""
    context = task.context
    rows = _files(context, dead_letters=False)
    dead_letters = _files(context, dead_letters=True)
    unknown = UnknownIds(registry)
    decoder = RecordDecoder(
        context,
        table=_table_decoder(context, rows.arrow_schema, unknown),
        dead_letter_schema=dead_letters.arrow_schema,
        now=now_utc,
    )
    work = _Work(decoder, rows, dead_letters)
    reads = reader.read(task.ranges, decoder.optional_fields)
    results = tuple(work.write(wanted, chunks) for wanted, chunks in zip(task.ranges, reads, strict=True))
    return TaskResult(
        ranges=results,
        row_files=rows.close(),
        dead_letter_files=dead_letters.close(),
        unknown_schema_ids=in_order(unknown.found),
        truncated_nanos=work.truncated_nanos,
        undeclared_fields=work.undeclared_fields,
    )


def _table_decoder(context: TaskContext, row_schema: pa.Schema, unknown: UnknownIds) -> TableDecoder:
    spec, known, excluded = context.spec, context.schemas, context.excluded
    return TableDecoder(
        spec,
        table=context.rows.identifier,
        row_schema=row_schema,
        values=TaskDecoders(
            spec.value, dict(known.values), unknown, excluded.values, spec.value_settings, spec.wire_format
        ),
        keys=TaskDecoders(spec.key, dict(known.keys), unknown, excluded.keys, spec.key_settings, spec.wire_format),
        former_names=context.former_names,
    )


def _files(context: TaskContext, *, dead_letters: bool) -> DataFileWriter:
    return DataFileWriter(
        context.dead_letters if dead_letters else context.rows,
        storage=context.storage,
        prefix=context.file_prefix,
        target_bytes=context.spec.maintain.target_file_bytes,
    )


@dataclass(slots=True)
class _Work:
    """The decoder and files that the ranges of one task share."""

    decoder: RecordDecoder
    rows: DataFileWriter
    dead_letters: DataFileWriter
    truncated_nanos: int = 0
    undeclared_fields: int = 0

    def write(self, wanted: OffsetRange, chunks: Iterator[Records]) -> RangeResult:
        tally = _Tally(wanted)
        for chunk in chunks:
            for records, decoded in self.decoder.decode(wanted.topic, wanted.partition, tally.affordable(chunk)):
                with self.decoder.defects_named(wanted.topic, wanted.partition, records):
                    self.rows.add(decoded.rows)
                    if decoded.dead_letters is not None:
                        self.dead_letters.add(decoded.dead_letters)
                self.truncated_nanos += decoded.truncated_nanos
                self.undeclared_fields += decoded.undeclared_fields
                tally.add(records, decoded)
            if tally.stop is not None or tally.spent:
                break
        return tally.result()


@dataclass(slots=True)
class _Tally:
    """Counts one range while it is read."""

    wanted: OffsetRange
    counts: Counts = field(default_factory=Counts)
    sums: OffsetSums = field(default_factory=OffsetSums)
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
        self.counts = self.counts + Counts(
            read=decoded.read,
            rows=decoded.rows.num_rows,
            dead_letters=sum(decoded.dead_letters_by_reason.values()),
            skipped=sum(decoded.skipped_by_reason.values()),
        )
        self.sums = self.sums + _sums(decoded.row_offsets)
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
            sums=self.sums,
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

    def _stopped_by(self, end: int) -> StoppedBy:
        if self.stop is not None:
            return self.stop.by
        return "end" if end >= self.wanted.end else "bytes"


def _sums(offsets: Indexes) -> OffsetSums:
    """Sums that wrap around at 2^64, as unsigned machine words do."""
    words = offsets.astype(np.uint64)
    return OffsetSums(int(words.sum(dtype=np.uint64)), int((words * words).sum(dtype=np.uint64)))
