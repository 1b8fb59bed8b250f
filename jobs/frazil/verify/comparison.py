"""The result of comparing a table with Kafka, and what explains records that only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.materialize.state import Standing
from frazil.model.expired_letters import Expired
from frazil.model.progress import TableState
from frazil.model.schemas import SchemaId, id_order
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.proof.rows import TAKEN_OUT_BY
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Discrepancy, FindingKind, first_named, listed_offsets
from frazil.verify.history_ends import ends_late
from frazil.verify.lost_keys import SKIPPED_ONCE, LostKeys, decoded_now, deletes_gone
from frazil.verify.missing_records import Causes, MissingRecords
from frazil.verify.proven import ComparedTable
from frazil.verify.unchecked import check_rows, notes
from frazil.verify.window import Compared


@dataclass(frozen=True, slots=True)
class TableProof:
    """The result of the proof by the tables alone: whether it found nothing, and the partitions whose sums agree.

    Where the sums hold, a row that Kafka has no record of was read once, and was compacted away since. `lost` is the
    number of rows that each partition lacks, because others removed them.
    """

    clean: bool
    sums_hold: frozenset[TopicPartition]
    lost: Mapping[TopicPartition, int]

    @staticmethod
    def of(tables: Sequence[ComparedTable], *, clean: bool) -> TableProof:
        holding = frozenset.intersection(*(table.proven.sums_hold for table in tables))
        lost = sum((Counter(table.proven.lost) for table in tables), Counter[TopicPartition]())
        return TableProof(clean, holding, lost)


@dataclass(slots=True)
class Comparison:
    """The findings of all partitions."""

    findings: list[Discrepancy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: dict[TopicPartition, Compared] = field(default_factory=dict)
    read_to_end: frozenset[TopicPartition] = frozenset()
    """Partitions in which Kafka had no newer record than the table after the comparison."""
    lost: dict[tuple[str, SchemaId | None], tuple[str, ...]] = field(default_factory=dict)
    """Fields without a column, by table and writer schema."""
    unchecked: int = 0
    """Records, keys and rows of which only their number is explained."""

    def add(self, more: Comparison) -> None:
        self.findings += more.findings
        self.notes += more.notes
        self.compared |= more.compared
        self.lost |= more.lost

    def explain_by_number(self, note: str, count: int) -> None:
        """Note that only the number of so many keys or rows is explained: they may be others."""
        self.notes.append(f"{note} explain the number; unchecked: they may be others")
        self.unchecked += count

    def total(self, figure: str) -> int:
        return sum(getattr(each, figure) for each in self.compared.values())


def _writer(schema_id: SchemaId | None) -> str:
    return "values" if schema_id is None else f"schema {schema_id}"


def judge(
    tables: Sequence[ComparedTable],
    result: Comparison,
    proof: TableProof,
    expired: Mapping[TopicPartition, Expired],
    *,
    ledger: Standing,
) -> None:
    """Add the findings about whole partitions: records that are missing, and rows that Kafka has no record of.

    `expired` are dead letters that were deleted because of their age.
    """
    _judge_columns(result)
    _judge_ends(tables, result, proof, ledger.state)
    lost = LostKeys.of(tables, result.compared, proof.lost if proof.clean else None, ledger.state)
    for where, found in result.compared.items():
        name = f"{where[0]}-{where[1]}"
        letters, removed = expired.get(where, Expired()), proof.lost.get(where, 0) if proof.clean else 0
        causes = Causes.of(tables, ledger.state, where, letters, removed)
        missing = MissingRecords(found, causes, clean=proof.clean, follows_keys=tables[0].spec.follows_keys)
        result.findings += found.differences
        _older_rows(name, found, result, lost)
        if found.unnamed:
            result.notes.append(f"{name}: {found.unnamed:,} more differences are not listed")
        if missing.count and missing.explained:
            result.notes.append(f"{name}: {missing.what}; {missing.why}")
            result.unchecked += missing.unchecked
        elif missing.count:
            result.findings.append(Discrepancy(FindingKind.MISSING_RECORD, name, missing.what, missing.offsets))
        if found.lost_keys:
            _lost_keys(where, found, result, lost)
        if found.keys_elsewhere:
            keys = plural(found.keys_elsewhere, "key of records has", "keys of records have")
            why = "offsets of two partitions do not say which record of a key is newer"
            result.notes.append(f"{name}: unchecked: {keys} a row from another partition, and {why}")
        if found.not_in_kafka:
            proven = where in proof.sums_hold
            _not_in_kafka(tables[0].spec, ledger.state, where, result, proven=proven, excused=missing.removed)


def _judge_columns(result: Comparison) -> None:
    for (table, schema_id), fields in sorted(result.lost.items(), key=lambda lost: (lost[0][0], id_order(lost[0][1]))):
        what = f"{table} has no column for {', '.join(fields)}"
        result.findings.append(Discrepancy(FindingKind.NO_COLUMN, _writer(schema_id), what))


def _judge_ends(tables: Sequence[ComparedTable], result: Comparison, proof: TableProof, ledger: TableState) -> None:
    """Judge the rows of a history that do not end at the next record of their key: deletes may be gone from Kafka."""
    late = sum(len(found.ending_late) for found in result.compared.values())
    otherwise = sum(len(found.ending_early) + len(found.ending_later) for found in result.compared.values())
    if not late + otherwise:
        return
    gone, removed = deletes_gone(tables, result.compared, ledger), sum(proof.lost.values())
    decoded, beyond = decoded_now(result.compared, ledger), max(otherwise - gone - removed, 0)
    is_explained = late + beyond <= decoded
    explained = late * is_explained + otherwise * (is_explained or not beyond)
    if explained:
        causes = [f"{plural(gone, 'delete')} that Kafka does not have any more"] * (gone > 0)
        causes += ["rows that other writers removed"] * (removed > 0) + [SKIPPED_ONCE] * (decoded > 0)
        what = f"{plural(explained, 'row')} of a history may end at other records than Kafka has"
        result.explain_by_number(f"{what}: {' and '.join(causes)}", explained)
    if is_explained:
        return
    for where, found in result.compared.items():
        _wrong_ends(where, found, result, otherwise=beyond > 0)


def _wrong_ends(where: TopicPartition, found: Compared, result: Comparison, *, otherwise: bool) -> None:
    """Add the findings that rows end too late, and `otherwise` at other records than Kafka has."""
    named = first_named(found.ending_late)
    found.unnamed += len(found.ending_late) - len(named)
    result.findings += [ends_late(where, offset) for offset in named]
    if not otherwise:
        return
    result.findings += [ends_late(where, offset) for offset in first_named(found.ending_later)]
    if found.ending_early:
        offsets, count = first_named(found.ending_early), len(found.ending_early)
        what = f"{plural(count, 'row ends', 'rows end')} before the next record of the key in Kafka"
        what += f": {listed_offsets(offsets, count)}"
        result.findings.append(Discrepancy(FindingKind.WRONG_INTERVAL, f"{where[0]}-{where[1]}", what, offsets))


def _lost_keys(where: TopicPartition, found: Compared, result: Comparison, lost: LostKeys) -> None:
    name = f"{where[0]}-{where[1]}"
    count, offsets = plural(len(found.lost_keys), "key"), first_named(found.lost_keys)
    listed = listed_offsets(offsets, len(found.lost_keys))
    what = f"missing: the row of {count}, whose newest records in Kafka are {listed}"
    if where in lost.known:
        result.notes.append(f"{name}: {what}: the rows that {TAKEN_OUT_BY} took out, by the sums of their offsets")
    elif lost.explains_lost:
        result.explain_by_number(f"{name}: {what}; {lost.causes}", len(found.lost_keys))
    else:
        result.findings.append(Discrepancy(FindingKind.LOST_KEY, name, what, offsets))


def _older_rows(name: str, found: Compared, result: Comparison, lost: LostKeys) -> None:
    for kind, rows in found.older_rows.items():
        count = len(rows.newer)
        if not lost.explains_older(kind):
            result.findings += rows.first
            found.unnamed += count - len(rows.first)
        elif count:
            newer = listed_offsets(first_named(rows.newer), count)
            what = f"{plural(count, 'row is', 'rows are')} older than these records of their keys: {newer}"
            result.explain_by_number(f"{name}: {what}; {lost.causes}", count)


def _not_in_kafka(
    spec: TableSpec, ledger: TableState, where: TopicPartition, result: Comparison, *, proven: bool, excused: bool
) -> None:
    name, found = f"{where[0]}-{where[1]}", result.compared[where]
    if spec.follows_keys:
        wrong = check_rows(spec, ledger, where, found, proven=proven, read_to_end=where in result.read_to_end)
        result.findings += [] if wrong is None else [wrong]
        result.notes += notes(spec, where, found, proven=proven)
        return
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
