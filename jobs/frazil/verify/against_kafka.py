"""The proof against Kafka: all that it still has of the offsets that the table has read, record by record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from frazil.adapters.iceberg.scan import TableScan
from frazil.formats.null_bytes import null_bytes_of_row
from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.dead_letter_marks import LiveReplays
from frazil.materialize.layout import metadata_columns
from frazil.materialize.state import Standing
from frazil.model.columns import Column, Scalar, lacking
from frazil.model.errors import BrokerError, RecordsLostError
from frazil.model.plan import OffsetRange, TopicFacts
from frazil.model.progress import PartitionProgress, SourceProgress
from frazil.model.schemas import SchemaId, id_order
from frazil.model.secret import NamedKey
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import RecordReader, SchemaRegistry, Topics
from frazil.proof.sources import progress_by_source, source_columns
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, first_named, listed_offsets
from frazil.records import Records
from frazil.verify.dead import visible_snapshot
from frazil.verify.decode import PURPOSES, open_redecoder
from frazil.verify.letter_comparison import LetterComparison
from frazil.verify.letters import LetterScan, dead_letter_scan, replayed_offsets
from frazil.verify.quoting import Quoting
from frazil.verify.scan import Watch
from frazil.verify.window import Compared, PartitionComparison, SometimesKept

WINDOW_OFFSETS = 200_000
WINDOW_BYTES = 16 << 20
"""The records of a partition that are compared at a time: their payload, or the nulls that their rows may have.

Values of fixed size are in the payload, or null: they are not counted twice.
"""

CHUNK_BYTES = 4 << 20
"""The approximate number of bytes that the reader returns at a time."""

NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KafkaSide:
    """The clients that read Kafka's side of the comparison."""

    topics: Topics
    reader: RecordReader
    registry: SchemaRegistry


@dataclass(frozen=True, slots=True)
class TableProof:
    """The result of the proof by the table alone: whether it found nothing, and the partitions whose sums agree.

    Where the sums hold, a row that Kafka has no record of was read once, and was compacted away since. `lost` is the
    number of rows that each partition lacks, because others removed them.
    """

    clean: bool
    sums_hold: frozenset[TopicPartition]
    lost: Mapping[TopicPartition, int]

    def excuses(self, at: TopicPartition, missing: int) -> bool:
        """Return whether rows that others removed explain that so many records of a partition are missing."""
        lost = self.lost.get(at, 0)
        return self.clean and lost > 0 and missing <= lost

    def skipped(self, missing: int, then: int) -> bool:
        """Return whether all missing records were skipped: `then` were, and the current settings skip them no more.

        Kafka may have compacted some of them away since, which the table's own proof allows for.
        """
        return missing <= then if self.clean else missing == then


@dataclass(slots=True)
class _Result:
    """The findings of all partitions."""

    findings: list[Discrepancy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: dict[TopicPartition, Compared] = field(default_factory=dict)
    lost: dict[SchemaId | None, tuple[str, ...]] = field(default_factory=dict)

    def add(self, more: _Result) -> None:
        self.findings += more.findings
        self.notes += more.notes
        self.compared |= more.compared
        self.lost |= more.lost

    def total(self, figure: str) -> int:
        return sum(getattr(each, figure) for each in self.compared.values())


def check_against_kafka(
    spec: TableSpec,
    at: Standing,
    dead_letters: TableView,
    kafka: KafkaSide,
    *,
    proof: TableProof,
    watch: Watch,
) -> Check:
    """Compare the table with Kafka. Raises BrokerError and RegistryError."""
    result = _Result()
    comparing = _Comparing(spec, at, dead_letters, kafka, watch)
    for source in at.state.sources:
        if source.topic in spec.topics:
            _compare_topic(comparing, source, result)
        else:
            _compare_removed_topic(comparing, source, result)
    result.findings += lacking_metadata(spec, at)
    _judge(at, result, proof)
    says = (
        f"{plural(result.total('records'), 'record')} in Kafka: {result.total('rows'):,} are rows,"
        f" equal in every column; {result.total('dead_letters'):,} are dead letters, equal in key, value,"
        f" headers, timestamp, schema and reason;"
        f" {result.total('skipped'):,} were skipped according to the spec"
    )
    return Check("kafka", says, tuple(result.findings), tuple(result.notes))


def lacking_metadata(spec: TableSpec, at: Standing) -> Iterator[Discrepancy]:
    """Metadata columns that the spec keeps and the table lacks.

    An Avro key has a column once a key schema is known, and the topic at the latest when a second one is read.
    """
    key = Column("key", Scalar("string")) if at.state.key_schema_ids else None
    awaits_topic = not {*spec.topics} <= {source.topic for source in at.state.sources}
    to_come = {spec.metadata.prefix + "topic"} if awaits_topic else set()
    for name in lacking(metadata_columns(spec, key), tuple(at.view.columns)):
        if name in to_come:
            continue
        what = f"the table has no column {name}, which `metadata.keep` names: its values cannot be compared"
        yield Discrepancy(FindingKind.NO_COLUMN, at.view.identifier, what)


def _compare_topic(comparing: _Comparing, source: SourceProgress, result: _Result) -> None:
    facts = comparing.kafka.topics.describe(source.topic)
    changed = list(_changed(source, facts))
    result.findings += changed
    if facts is None or any(finding.where == source.topic for finding in changed):
        return
    for number, progress in sorted(source.partitions.items()):
        if number in facts.partitions:
            where = (source.topic, number)
            result.compared[where] = comparing.partition(where, progress, facts, result)


def _compare_removed_topic(comparing: _Comparing, source: SourceProgress, result: _Result) -> None:
    """Compare a topic that the spec does not name any more, if it still exists and this user may still read it."""
    found = _Result()
    try:
        _compare_topic(comparing, source, found)
    except BrokerError as refused:
        why = refused.what
    else:
        replaced = [finding for finding in found.findings if finding.kind is FindingKind.SOURCE_CHANGED]
        if not replaced:
            result.add(found)
            return
        why = "; ".join(f"{finding.where}: {finding.what}" for finding in replaced)
    result.notes.append(f"{source.topic}: not compared, and the spec does not name the topic any more: {why}")


def _changed(source: SourceProgress, facts: TopicFacts | None) -> Iterator[Discrepancy]:
    """Yield discrepancies that show that the topic was replaced."""
    kind = FindingKind.SOURCE_CHANGED
    if facts is None:
        yield Discrepancy(kind, source.topic, "the cluster has no such topic, or this user may not see it")
        return
    if None not in (source.topic_id, facts.topic_id) and source.topic_id != facts.topic_id:
        what = f"the topic was re-created: read as topic id {source.topic_id}, now {facts.topic_id}"
        yield Discrepancy(kind, source.topic, what)
        return
    for number, progress in sorted(source.partitions.items()):
        partition = facts.partitions.get(number)
        if partition is None:
            yield Discrepancy(kind, f"{source.topic}-{number}", "the topic no longer has this partition")
        elif partition.end < progress.next:
            what = f"read up to {progress.next}, but the partition ends at {partition.end}: records were lost in Kafka"
            yield Discrepancy(kind, f"{source.topic}-{number}", what)


@dataclass(frozen=True, slots=True)
class _Comparing:
    """What comparing any partition of a table takes."""

    spec: TableSpec
    at: Standing
    dead_letters: TableView
    kafka: KafkaSide
    watch: Watch

    def partition(
        self, where: TopicPartition, progress: PartitionProgress, facts: TopicFacts, result: _Result
    ) -> Compared:
        """Compare all records that exist; if retention deletes records meanwhile, compare the rest."""
        comparison = self._comparison(where)
        position, end = progress.origin, min(progress.next, facts.partitions[where[1]].end)
        while position < end:
            earliest = facts.partitions[where[1]].earliest
            if earliest > position:
                result.notes.append(
                    f"{where[0]}-{where[1]}: Kafka no longer has offsets [{position}, {min(earliest, end)}) of"
                    f" [{progress.origin}, {progress.next}): only the table's own proof covers them"
                )
                position = min(earliest, end)
                continue
            try:
                for reached in self._windows(comparison, where, position, end):
                    position = reached
                    self.watch(f"{where[0]}-{where[1]}", position - progress.origin, end - progress.origin)
            except RecordsLostError:
                fresh = self.kafka.topics.describe(where[0])
                if fresh is None or fresh.partitions[where[1]].earliest <= earliest:
                    raise
                facts = fresh
        result.lost |= comparison.as_rows.placed.lost
        result.notes += _letter_notes(f"{where[0]}-{where[1]}", comparison.letters, self.spec.dead_letter_key)
        return comparison.found

    def _windows(self, comparison: PartitionComparison, where: TopicPartition, start: int, end: int) -> Iterator[int]:
        """Read `[start, end)` and compare it window by window; how far it has come, each time."""
        wanted = OffsetRange(where[0], where[1], start, end, partition_end=end, max_bytes=NO_LIMIT)
        chunks: list[Records] = []
        held = 0
        nulls = null_bytes_of_row(comparison.as_rows.row_schema)
        read = chain.from_iterable(self.kafka.reader.read([wanted], comparison.as_rows.optional_fields))
        for records in (part for chunk in read for part in _parts(chunk, nulls)):
            chunks.append(records)
            held += max(records.memory, len(records) * nulls)
            full = held >= WINDOW_BYTES or records.next_offset - start >= WINDOW_OFFSETS
            if full or records.next_offset >= end:
                comparison.window(start, records.next_offset, chunks)
                start, chunks, held = records.next_offset, [], 0
                yield start

    def _comparison(self, where: TopicPartition) -> PartitionComparison:
        columns = source_columns(self.spec, self.at.state)
        equal = {columns.partition: where[1], **({} if columns.topic is None else {columns.topic: where[0]})}
        unnamed = (columns.topic,) if columns.topic is not None and columns.unnamed_topic == where[0] else ()
        generation = next(s.generation for s in self.at.state.sources if s.topic == where[0])
        rows_uuid = self.at.view.uuid
        snapshot = visible_snapshot(self.dead_letters, self.at.state, rows_uuid=rows_uuid)
        snapshot_id = None if snapshot is None else snapshot.id
        about = (self.dead_letters, where)
        of_table: dict[str, Any] = {"generation": generation, "rows_uuid": rows_uuid, "snapshot_id": snapshot_id}
        as_rows, as_letters, as_leftovers = (
            open_redecoder(self.spec, self.at, self.dead_letters, self.kafka.registry, purpose=purpose)
            for purpose in PURPOSES
        )
        quoting = Quoting(allowed=not self.spec.masked)
        return PartitionComparison(
            source=where,
            rows=TableScan(self.at.view, columns=("*",), equal=equal, or_null=unnamed),
            offset_column=columns.offset,
            dead_letters=LetterScan(
                dead_letter_scan(*about, **of_table),
                self.spec.dead_letter_key,
                replayed_offsets(*about, **of_table, replays=LiveReplays.of(self.at.view)),
            ),
            as_rows=as_rows,
            as_leftovers=as_leftovers,
            letters=LetterComparison(where, as_letters, quoting),
            sometimes_kept=_sometimes_kept(self.at.view, unnamed),
            quoting=quoting,
        )


def _letter_notes(name: str, letters: LetterComparison, key: NamedKey | None) -> Iterator[str]:
    configured = "no dead_letter_key is configured" if key is None else f"the configured dead_letter_key is {key.id}"
    for key_id, count in sorted(letters.sealed.items()):
        what = f"{plural(count, 'dead letter')} under the key {key_id}: {configured}"
        yield f"{name}: not compared are key, value and headers of {what}"
    if letters.decodable:
        records = "record" if letters.decodable == 1 else "records"
        what = f"the {records} of {plural(letters.decodable, 'dead letter')} can be decoded now"
        yield f"{name}: {what}: `frazil dead-letters replay` turns such letters into rows"


def _parts(chunk: Records, nulls: int) -> Iterator[Records]:
    """Cut a chunk so that its rows are less than a window, if each has `nulls` bytes of nulls."""
    most = max(WINDOW_BYTES // nulls, 1) if nulls else len(chunk)
    while len(chunk) > most:
        yield chunk.first(most)
        chunk = chunk.after(most)
    yield chunk


def _sometimes_kept(view: TableView, unnamed: Collection[str]) -> SometimesKept:
    """Return the columns that may be null, among them `unnamed`, the column of the topic where rows may name none."""
    applied = applied_spec_of(view.properties, table=view.identifier)
    if applied is None:
        return SometimesKept(frozenset(unnamed))
    kept = applied.keep if applied.keys["key"] != "none" else [name for name in applied.keep if name != "key"]
    sometimes = {applied.prefix + name for name in applied.sometimes_kept}.union(unnamed)
    return SometimesKept(frozenset(sometimes), frozenset(sometimes - {applied.prefix + name for name in kept}))


def _writer(schema_id: SchemaId | None) -> str:
    return "values" if schema_id is None else f"schema {schema_id}"


def _judge(at: Standing, result: _Result, proof: TableProof) -> None:
    result.findings += [
        Discrepancy(FindingKind.NO_COLUMN, _writer(schema_id), f"the table has no column for {', '.join(fields)}")
        for schema_id, fields in sorted(result.lost.items(), key=lambda lost: id_order(lost[0]))
    ]
    progress = progress_by_source(at.state)
    for where, found in result.compared.items():
        name = f"{where[0]}-{where[1]}"
        then = max(progress[where].counts.skipped - found.skipped, 0)
        excused = proof.excuses(where, len(found.missing) - then)
        result.findings += found.differences
        if found.unnamed:
            result.notes.append(f"{name}: {found.unnamed:,} more differences are not listed")
        if found.missing and (excused or proof.skipped(len(found.missing), then)):
            result.notes.append(f"{name}: {_missing(found)}; {_explained(then, removed=excused)}")
        elif found.missing:
            result.findings.append(
                Discrepancy(FindingKind.MISSING_RECORD, name, _missing(found), first_named(found.missing))
            )
        if found.not_in_kafka:
            _not_in_kafka(name, found, result, proven=where in proof.sums_hold, excused=excused)


def _explained(then: int, *, removed: bool) -> str:
    """Return why records are missing: removals by other writers, or settings that skip them no more."""
    skipped = f"the {then:,} that the table counted as skipped under other settings"
    causes = ["removals by other writers"] * removed + [skipped] * (then > 0)
    return f"{' and '.join(causes)} explain the number"


def _missing(found: Compared) -> str:
    offsets = listed_offsets(first_named(found.missing), len(found.missing))
    missing = plural(len(found.missing), "record")
    return f"missing: {missing} in Kafka (not a row, a dead letter or skipped): {offsets}"


def _not_in_kafka(name: str, found: Compared, result: _Result, *, proven: bool, excused: bool) -> None:
    offsets = first_named(found.not_in_kafka)
    what = f"{len(found.not_in_kafka):,} rows or dead letters without a record in Kafka: "
    what += listed_offsets(offsets, len(found.not_in_kafka))
    if proven:
        result.notes.append(
            f"{name}: {what}; the table's sums prove that they were read, and Kafka has compacted them since"
        )
    elif excused:
        result.notes.append(f"{name}: {what}; other writers removed rows, so it cannot be proven that they were read")
    else:
        result.findings.append(Discrepancy(FindingKind.NOT_IN_KAFKA, name, what, offsets))
