"""The proof against Kafka: all that it still has of the offsets that the table has read, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from pyroaring import BitMap64

from frazil.adapters.iceberg.scan import TableScan
from frazil.formats.null_bytes import null_bytes_of_row
from frazil.materialize.dead_letter_marks import LiveReplays
from frazil.materialize.layout import metadata_columns
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.state import Standing
from frazil.model.columns import Column, Scalar, lacking
from frazil.model.errors import BrokerError, RecordsLostError
from frazil.model.plan import OffsetRange, TopicFacts
from frazil.model.progress import GroupPartition, PartitionProgress, SourceProgress
from frazil.model.routes import are_shapes
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import RecordReader, SchemaRegistry, Topics
from frazil.proof.group import group_progress
from frazil.proof.sources import source_columns
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind
from frazil.records import Records
from frazil.verify.collected import (
    Collected,
    add_compared,
    collected_of,
    compares_together,
    comparison_of,
    lacking_order,
)
from frazil.verify.comparison import Comparison, TableProof, judge
from frazil.verify.dead import expired_by_source, visible_snapshot
from frazil.verify.decode import open_rows, routes_of
from frazil.verify.earlier_specs import EarlierSpecs, changed_keys, earlier_specs
from frazil.verify.judging import Judge, of_leftovers, of_letters, open_judge
from frazil.verify.letter_comparison import LetterComparison
from frazil.verify.letters import LetterScan, dead_letter_scan, replayed_offsets
from frazil.verify.proven import ComparedTable
from frazil.verify.quoting import Quoting
from frazil.verify.row_comparison import RowComparison, SometimesKept
from frazil.verify.scan import Watch
from frazil.verify.window import PartitionComparison, Routing, Windows

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


def check_against_kafka(
    tables: Sequence[ComparedTable], dead_letters: TableView, kafka: KafkaSide, *, clean: bool, watch: Watch
) -> Iterator[Check]:
    """Compare a table, or the tables of a group with its ledger first, with Kafka: together, but each shape by itself.

    `clean` says that the proof from the tables alone found nothing. Raises BrokerError and RegistryError.
    """
    parts = [[table] for table in tables] if are_shapes(routes_of(tables[0].at.state)) else [tables]
    for part in parts:
        absent = lacking_order(part[0])
        compared = _Comparing(part, tables, dead_letters, kafka, watch)
        yield Check("kafka", "", absent) if absent else _check(compared, clean=clean)


def _check(comparing: _Comparing, *, clean: bool) -> Check:
    result, tables, ledger = Comparison(), comparing.tables, comparing.ledger
    together = collected_of(tables[0]) if compares_together(tables[0].spec) else None
    read: list[_Partition] = []
    for source in ledger.at.state.sources:
        compare = _compare_topic if source.topic in ledger.spec.topics else _compare_removed_topic
        read += compare(comparing, source, result, together)
    comparing.keys(together, read)
    result.read_to_end = comparing.read_to_end(read)
    for table in tables:
        result.findings += lacking_metadata(table.spec, table.at)
    expired = expired_by_source(comparing.dead_letters, ledger.at)
    judge(tables, result, TableProof.of(tables, clean=clean), expired, ledger=ledger.at)
    letters = plural(result.total("dead_letters"), "is a dead letter", "are dead letters")
    followed = _followed(tables[0].spec, result.total("followed"))
    shape = f"{tables[0].spec.identifier}: " if len(tables) < len(comparing.group) else ""
    says = (
        f"{shape}{plural(result.total('records'), 'record')} in Kafka:"
        f" {plural(result.total('rows'), 'is a row', 'are rows')},"
        f" equal in every column; {letters}, equal in key, value, headers, timestamp, schema and reason;"
        f"{followed} {plural(result.total('skipped'), 'was', 'were')} skipped according to the spec"
        f"{_unchecked(result.unchecked)}"
    )
    return Check("kafka", says, tuple(result.findings), tuple(result.notes))


def _unchecked(count: int) -> str:
    return f"; {plural(count, 'is', 'are')} unchecked" if count else ""


def _followed(spec: TableSpec, count: int) -> str:
    """Return what became of the records that are neither rows nor dead letters, in a table that follows keys."""
    if not spec.follows_keys:
        return ""
    if spec.write == "deduplicate":
        return f" {plural(count, 'is a duplicate', 'are duplicates')};"
    return f" {plural(count, 'deletes a key or was', 'delete a key or were')} followed by another of their key;"


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


def _compare_topic(
    comparing: _Comparing, source: SourceProgress, result: Comparison, together: Collected | None
) -> list[_Partition]:
    """Compare the partitions of a topic, and return them. Keys that are compared `together` are collected there."""
    facts = comparing.kafka.topics.describe(source.topic)
    changed = list(_changed(source, facts))
    result.findings += changed
    if facts is None or any(finding.where == source.topic for finding in changed):
        return []
    read: list[_Partition] = []
    for number, progress in sorted(source.partitions.items()):
        if number in facts.partitions:
            where = (source.topic, number)
            collected = together or collected_of(comparing.tables[0])
            comparison = comparing.partition(where, progress, facts, result, collected)
            result.compared[where] = comparison.found
            read.append(_Partition(comparison, progress, facts))
            if together is None:
                comparing.keys(collected, read[-1:])
    return read


def _compare_removed_topic(
    comparing: _Comparing, source: SourceProgress, result: Comparison, together: Collected | None
) -> list[_Partition]:
    """Compare a topic that the spec does not name any more, if it still exists and this user may still read it."""
    try:
        facts = comparing.kafka.topics.describe(source.topic)
        replaced = list(_changed(source, facts))
        if not replaced:
            found = Comparison()
            read = _compare_topic(comparing, source, found, together)
            result.add(found)
            return read
        why = "; ".join(f"{finding.where}: {finding.what}" for finding in replaced)
    except BrokerError as refused:
        why = refused.what
    result.notes.append(f"{source.topic}: not compared, and the spec does not name the topic any more: {why}")
    return []


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


@dataclass(slots=True)
class _Partition:
    """A partition that was compared, and the newest facts of its topic."""

    comparison: PartitionComparison
    progress: PartitionProgress
    facts: TopicFacts


@dataclass(frozen=True, slots=True)
class _Comparing:
    """What comparing any partition of a table takes, or of the tables of a group, of whose tables these are some."""

    tables: Sequence[ComparedTable]
    group: Sequence[ComparedTable]
    dead_letters: TableView
    kafka: KafkaSide
    watch: Watch

    @property
    def ledger(self) -> ComparedTable:
        """The table that holds the state of the group; one without a group itself."""
        return self.group[0]

    @property
    def place(self) -> int | None:
        """The place of the only table among the shapes; None without shapes."""
        return self.group.index(self.tables[0]) if are_shapes(routes_of(self.ledger.at.state)) else None

    def partition(
        self,
        where: TopicPartition,
        progress: PartitionProgress,
        facts: TopicFacts,
        result: Comparison,
        collected: Collected | None,
    ) -> PartitionComparison:
        """Compare all records that exist, and collect those that are no rows by their key."""
        comparison = self._comparison(where, collected)
        _, notes = self._read(comparison, where, progress, facts)
        result.notes += notes
        for table in comparison.tables:
            result.lost |= {(table.table, writer): lost for writer, lost in table.lost.items()}
        result.notes += comparison.earlier_notes(changed_keys(self._earlier(where)))
        result.notes += comparison.letters.notes(self.tables[0].spec)
        return comparison

    def keys(self, collected: Collected | None, read: Sequence[_Partition]) -> None:
        """Compare the keys of partitions, whose records are read again for keys that did not fit in memory."""
        if collected is None:
            return
        found = {each.comparison.source: each.comparison.found for each in read}
        while True:
            add_compared(collected, found)
            if not collected.goes_on():
                return
            for each in read:
                if each.comparison.keys is not None:
                    where = each.comparison.source
                    each.facts, _ = self._read(each.comparison.keys, where, each.progress, each.facts)

    def read_to_end(self, read: Sequence[_Partition]) -> frozenset[TopicPartition]:
        """Return the partitions with unchecked rows in which Kafka has no newer record than the table by now."""
        topics = {each.comparison.source[0] for each in read if each.comparison.found.unchecked_rows}
        now = {topic: self.kafka.topics.describe(topic) for topic in topics.intersection(self.ledger.spec.topics)}
        ends = {(t, n): p.end for t, facts in now.items() if facts is not None for n, p in facts.partitions.items()}
        at = {each.comparison.source: each.progress.next for each in read}
        return frozenset(where for where, end in ends.items() if at.get(where) == end)

    def _read(
        self, comparison: Windows, where: TopicPartition, progress: PartitionProgress, facts: TopicFacts
    ) -> tuple[TopicFacts, list[str]]:
        """Read all records that exist; if retention deletes records meanwhile, read the rest.

        Returns the newest facts of the topic, and notes of offsets without a record.
        """
        notes: list[str] = []
        position, end = progress.origin, min(progress.next, facts.partitions[where[1]].end)
        while position < end:
            earliest = facts.partitions[where[1]].earliest
            if earliest > position:
                notes.append(self._retention_note(where, position, min(earliest, end), progress))
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
        return facts, notes

    def _retention_note(self, where: TopicPartition, start: int, end: int, progress: PartitionProgress) -> str:
        note = (
            f"{where[0]}-{where[1]}: Kafka no longer has offsets [{start}, {end}) of"
            f" [{progress.origin}, {progress.next}): only the table's own proof covers them"
        )
        table = self.tables[0]
        rows = table.proven.seen.get(where, BitMap64()).range_cardinality(start, end)
        return f"{note}; unchecked: {plural(rows, 'key')} with a row from there" if table.spec.follows_keys else note

    def _windows(self, comparison: Windows, where: TopicPartition, start: int, end: int) -> Iterator[int]:
        """Read `[start, end)` and compare it window by window; how far it has come, each time."""
        wanted = OffsetRange(where[0], where[1], start, end, partition_end=end, max_bytes=NO_LIMIT)
        chunks: list[Records] = []
        held = 0
        nulls = max(null_bytes_of_row(table.as_rows.row_schema) for table in comparison.tables)
        optional = comparison.tables[0].as_rows.optional_fields
        read = chain.from_iterable(self.kafka.reader.read([wanted], optional))
        for records in (part for chunk in read for part in _parts(chunk, nulls)):
            chunks.append(records)
            held += max(records.memory, len(records) * nulls)
            full = held >= WINDOW_BYTES or records.next_offset - start >= WINDOW_OFFSETS
            if full or records.next_offset >= end:
                comparison.window(start, records.next_offset, chunks)
                start, chunks, held = records.next_offset, [], 0
                yield start

    def _comparison(self, where: TopicPartition, collected: Collected | None) -> PartitionComparison:
        ledger, earlier = self.ledger, self._earlier(where)
        state, routes = ledger.at.state, () if self.place is not None else routes_of(ledger.at.state)
        judge_of_letters, former_judges = self._judges(earlier, of_letters)
        excluded = excluded_schemas(ledger.at.view.properties)
        leftovers, former_leftovers = self._judges(earlier, of_leftovers, excluded=excluded)
        leftovers.earlier = former_leftovers
        since = 0 if state.group is None else group_progress(state.group).get(where, GroupPartition()).routed_since
        names = tuple(f"{ledger.spec.database}.{route.table}" for route in routes)
        quoting = Quoting(allowed=not ledger.spec.masked)
        tables = [self._rows(table, where, quoting) for table in self.tables]
        return PartitionComparison(
            source=where,
            tables=tables,
            dead_letters=self._letters(where),
            leftovers=leftovers,
            letters=LetterComparison(where, judge_of_letters, quoting, since, earlier=former_judges),
            routing=Routing(judge_of_letters, names, since) if routes else None,
            keys=None if collected is None else comparison_of(collected, where, tables, leftovers),
        )

    def _earlier(self, where: TopicPartition) -> Sequence[EarlierSpecs]:
        return earlier_specs([(table.spec, table.at) for table in self.group], where)

    def _judges(
        self, earlier: Sequence[EarlierSpecs], how: Callable[[TableSpec], Mapping[str, Any]], **more: Any
    ) -> tuple[Judge, Sequence[tuple[int, Judge]]]:
        """Return what judges the records by the present specs, and by the earlier ones with their ends.

        `how` says what becomes of bad records and tombstones by the spec of the ledger.
        """
        judge = partial(open_judge, dead_letters=self.dead_letters, registry=self.kafka.registry, place=self.place)
        present = [(table.spec, table.at) for table in self.group]
        former = [(each.until, judge(each.specs, **how(each.specs[0][0]), **more)) for each in earlier]
        return judge(present, **how(present[0][0]), **more), former

    def _rows(self, table: ComparedTable, where: TopicPartition, quoting: Quoting) -> RowComparison:
        columns = source_columns(table.spec, table.at.state)
        equal = {columns.partition: where[1], **({} if columns.topic is None else {columns.topic: where[0]})}
        unnamed = (columns.topic,) if columns.topic is not None and columns.unnamed_topic == where[0] else ()
        opened = partial(open_rows, at=table.at, dead_letters=self.dead_letters, registry=self.kafka.registry)
        present = RowComparison(
            source=where,
            rows=TableScan(table.at.view, columns=("*",), equal=equal, or_null=unnamed),
            offset_column=columns.offset,
            as_rows=opened(table.spec),
            sometimes_kept=SometimesKept.of(table.at.view, unnamed),
            quoting=quoting,
            table="the table" if table.spec.group is None else table.spec.identifier,
        )
        earlier = earlier_specs([(table.spec, table.at)], where)
        present.earlier = [(each.until, present.by(each.specs[0][0], opened)) for each in earlier]
        return present

    def _letters(self, where: TopicPartition) -> LetterScan:
        ledger = self.ledger
        state, rows_uuid = ledger.at.state, ledger.at.view.uuid
        generation = next(source.generation for source in state.sources if source.topic == where[0])
        snapshot = visible_snapshot(self.dead_letters, state, rows_uuid=rows_uuid)
        snapshot_id = None if snapshot is None else snapshot.id
        of_table: dict[str, Any] = {"generation": generation, "rows_uuid": rows_uuid, "snapshot_id": snapshot_id}
        replays = LiveReplays.of(ledger.at.view)
        return LetterScan(
            dead_letter_scan(self.dead_letters, where, **of_table),
            ledger.spec.dead_letter_key,
            replayed_offsets(self.dead_letters, where, **of_table, replays=replays),
        )


def _parts(chunk: Records, nulls: int) -> Iterator[Records]:
    """Cut a chunk so that its rows are less than a window, if each has `nulls` bytes of nulls."""
    most = max(WINDOW_BYTES // nulls, 1) if nulls else len(chunk)
    while len(chunk) > most:
        yield chunk.first(most)
        chunk = chunk.after(most)
    yield chunk
