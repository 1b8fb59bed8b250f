"""Whether Kafka still has the records that a rebuilt table needs: compaction may have removed some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nsmallest

from pyroaring import BitMap64

from frazil.materialize.changed_spec.applied_spec import applied_spec_of, as_applied
from frazil.materialize.foreign import count_foreign
from frazil.materialize.rebuild.checks import NEW_TABLE
from frazil.materialize.rebuild.earlier_records import earlier_of
from frazil.materialize.rebuild.rebuilt_state import progress_of, records_read
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import RecordsLostError
from frazil.model.key_forms import has_several_forms
from frazil.model.moments import rfc3339
from frazil.model.plan import TopicFacts
from frazil.model.progress import PartitionProgress, SourceProgress, TableState
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Lake
from frazil.proof.sources import source_columns
from frazil.proof.tally import bitmap_of

NAMED = 5
"""So many offsets of dead letters are named."""

DELETES_ARE_KEPT = timedelta(days=1)
"""How long Kafka keeps deletes for those who read a compacted topic, by its default of `delete.retention.ms`."""

OF_KEYS = frozenset(reason.value for reason in Reason if reason is not Reason.NULL_IDENTITY)
"""Why a record is a dead letter, or skipped as a bad one, that has a key: the row of its key stays as it was.

Records that are skipped for other reasons, such as heartbeats, are about no row.
"""

RULES = (
    *("write", "key", "value", "fields", "wire_format", "identity", "order_by", "start"),
    *("cdc", "cdc_deletes", "cdc_order", "cdc_connector", "string_formats", "message", "key_message", "columns"),
)
"""The keys of a spec that say which records are rows, and of which key."""


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """One partition of the table and of what was built, and how many records each was made of.

    `earlier` of the records of what was built are from before the table's first one.
    """

    topic: str
    number: int
    had: PartitionProgress
    built: PartitionProgress
    records_before: int
    records: int
    earlier: int

    @property
    def lacks_records(self) -> bool:
        """Return whether Kafka has fewer records than the table was made of, as far as their numbers show it.

        If what was built begins later, as `start` says, it has more offsets without a record than the table.
        """
        if self.built.origin <= self.had.origin:
            return self.records - self.earlier < self.records_before
        return self.empty > self.empty_before

    @property
    def lost(self) -> int:
        """Return how many records the table was made of that Kafka does not have; 0 if it has more."""
        return max(self.records_before - (self.records - self.earlier), 0)

    @property
    def empty(self) -> int:
        return self.built.next - self.built.origin - self.records

    @property
    def empty_before(self) -> int:
        return self.had.next - self.had.origin - self.records_before

    @property
    def has_same_rows(self) -> bool:
        """Return whether the rows of what was built are of the same records as those of the table."""
        return (self.had.live_rows, self.had.sums) == (self.built.live_rows, self.built.sums)

    @property
    def says(self) -> str:
        """Return what the numbers of records show."""
        name = f"{self.topic}-{self.number}"
        if self.built.origin <= self.had.origin:
            since = f" from offset {self.had.origin}" if self.built.origin < self.had.origin else ""
            made = f"the table was made of {plural(self.records_before, 'record')} of {name}{since} up to offset"
            left = f"Kafka has {self.records - self.earlier:,} of them"
            return f"{made} {self.had.next}, and {left}: compaction removed the others"
        offsets = f"[{self.built.origin}, {self.built.next})"
        return (
            f"{plural(self.empty, 'offset')} of {offsets} of {name} {'has' if self.empty == 1 else 'have'} no record in"
            f" Kafka, and when the table was read, {self.empty_before:,} had none: compaction removed records since"
        )


def check_complete(
    lake: Lake,
    spec: TableSpec,
    here: Standing,
    built: Standing,
    *,
    base: TableState | None,
    facts: Sequence[TopicFacts],
    now: datetime,
) -> None:
    """Raise RecordsLostError if Kafka has too few records of the same offsets for what was built in `lake`.

    `base` is the state that a rewind begins at: its rows may have deletes that compaction has removed. A rebuild needs
    the newest record of each key only, which compaction leaves, where offsets order the records and these are rows or
    deletes that take no values from the row before them.
    """
    for at in partitions_that_lack_records(here.state, built):
        if base is not None:
            raise _too_few(spec, at, hint=_instead_of_rewind(spec, here.state, facts))
        if not _is_by_offset(spec) or at.built.last_incomplete != -1:
            raise _too_few(spec, at, hint=f"{NEW_TABLE} to have what Kafka still has")
        if not at.has_same_rows:
            _check_newest(lake, spec, built, at)
            _check_deleted(lake, spec, here, built, at, now=now)


def partitions_that_lack_records(table: TableState, built: Standing) -> Iterator[ComparedPartition]:
    """Yield the partitions of which Kafka has fewer records than the table was made of."""
    earlier = earlier_of(built)
    for source in table.sources:
        for number, had in sorted(source.partitions.items()):
            topic, now = source.topic, progress_of(built.state, source.topic, number)
            before, records = (records_read(state, topic, number) for state in (table, built.state))
            less = 0 if earlier is None else records_read(earlier, topic, number)
            at = ComparedPartition(topic, number, had, now, before, records, less)
            if at.lacks_records:
                yield at


def with_compacted_deletes(table: TableState, built: Standing) -> TableState:
    """Return the state of what was built, with the deletes of the table that are gone, and those that were before.

    Without them, a replayed dead letter that is older than such a delete would be the row of its key. A row that was
    erased on request is like one. A rewind begins at a state that may lack those of a later rebuild.
    """
    lacking = {(each.topic, each.number) for each in partitions_that_lack_records(table, built)}

    def of(source: SourceProgress, number: int) -> PartitionProgress:
        at, had = source.partitions[number], progress_of(table, source.topic, number)
        gone = max(had.counts.deletes - at.counts.deletes, 0) + had.forgotten
        gone = gone if (source.topic, number) in lacking else 0
        return replace(at, compacted_deletes=max(had.compacted_deletes, at.compacted_deletes) + gone)

    sources = (replace(s, partitions={number: of(s, number) for number in s.partitions}) for s in built.state.sources)
    return replace(built.state, sources=tuple(sources))


def _is_by_offset(spec: TableSpec) -> bool:
    return spec.write == "upsert" and not spec.order


def _check_newest(lake: Lake, spec: TableSpec, built: Standing, at: ComparedPartition) -> None:
    """Raise RecordsLostError if the newest record of a key may be one that neither is its row nor deletes it."""
    if spec.on_tombstone != "delete":
        why = ", and a record without a value, which deletes no row here, may be all that is left of a key that has one"
        raise _too_few(spec, at, why=why, hint=f"{NEW_TABLE} to have what Kafka still has")
    no_rows = [*_dead_letters(lake, spec, built, at), *_skipped(built.state, at)]
    if no_rows:
        why = f", and a row is lost if the newest record of its key is one of these: {'; '.join(no_rows)}"
        hint = (
            "change the spec or the schemas so that they become rows, and run it again; or write a newer record of"
            f" each of their keys; or {NEW_TABLE} to have what Kafka still has"
        )
        raise _too_few(spec, at, why=why, hint=hint)


def _check_deleted(
    lake: Lake, spec: TableSpec, here: Standing, built: Standing, at: ComparedPartition, *, now: datetime
) -> None:
    """Raise RecordsLostError if keys have rows again that the table has deleted.

    A key may be written as several sequences of bytes, such as with two schemas. For Kafka these are several keys: it
    removes a delete of one in time, and keeps the records of the other. And it may remove a delete after the record of
    its key was read.
    """
    schemas = {*here.state.key_schema_ids, *built.state.key_schema_ids}
    has_forms = has_several_forms(spec, schemas, built.view.columns)
    if not _has_same_rules(here, built):
        if has_forms:
            form = f"have {len(schemas)} schemas" if len(schemas) > 1 else f"may have other bytes (`key: {spec.key}`)"
            why = f", and equal keys {form}: a delete of the same key with other bytes may be gone"
            raise _too_few(spec, at, why=why, hint=f"{NEW_TABLE} to have what Kafka still has")
        _check_age(spec, built, at, now=now)
        return
    more = _row_offsets(lake, spec, built, at.number) - _row_offsets(lake, spec, here, at.number)
    others = 0  # whose offsets are not known
    if not has_forms:
        more -= _offsets_of_letters(lake, spec, here, at)  # they may be rows now
        others = sum(here.state.skipped_by_reason.get(reason, 0) for reason in OF_KEYS)
        others += count_foreign(here).sourced_removed
    if len(more) > others:
        why = (
            f", and {plural(len(more), 'key')} would have a row that the table does not have, of"
            f" {_offsets([*more[:NAMED]], len(more))}: a delete may be gone that had other bytes as its key"
        )
        hint = f"delete each of these keys with a record of the same bytes, and run it again; or {NEW_TABLE}"
        raise _too_few(spec, at, why=why, hint=hint)


def _check_age(spec: TableSpec, built: Standing, at: ComparedPartition, *, now: datetime) -> None:
    """Raise RecordsLostError if what was built may have the row of a key whose delete was gone before it was read."""
    *_, first = built.view.ancestry(built.view.head)
    is_whole = first.parent_id is None
    if is_whole and now - first.committed_at <= DELETES_ARE_KEPT:
        return
    began = (
        f"began {rfc3339(first.committed_at)}" if is_whole else "has snapshots that expired, so its age is not known"
    )
    why = (
        f", and the rebuild {began}. It has the rows of another spec, so they cannot be"
        " compared with those of the table; and after a day, a delete may be gone of a key whose row was read before"
    )
    raise _too_few(spec, at, why=why, hint="drop it and begin again, and read all within a day")


def _has_same_rules(here: Standing, built: Standing) -> bool:
    """Return whether the same records are rows in what was built as in the table, by the specs of both."""
    both = [applied_spec_of(each.view.properties, table=each.view.identifier) for each in (here, built)]
    texts = [None if each is None else [each.keys[key] for key in RULES] for each in both]
    return texts[0] is not None and texts[0] == texts[1]


def _row_offsets(lake: Lake, spec: TableSpec, at: Standing, number: int) -> BitMap64:
    """Return the offsets of the rows of a partition of the table's only topic."""
    columns, found = source_columns(as_applied(spec, at.view.properties), at.state), BitMap64()
    for batch in lake.read(at.view, columns=[columns.offset], equal={columns.partition: number}):
        found |= bitmap_of(batch.column(columns.offset).to_numpy(zero_copy_only=False))
    return found


def _offsets_of_letters(lake: Lake, spec: TableSpec, here: Standing, at: ComparedPartition) -> BitMap64:
    """Return the offsets of the table's own dead letters of a partition."""
    found, view = BitMap64(), lake.load(spec.dead_letters_identifier) if at.had.counts.dead_letters else None
    generation = next(source.generation for source in here.state.sources if source.topic == at.topic)
    place = {"table_uuid": here.view.uuid, "topic": at.topic, "generation": generation, "partition": at.number}
    for batch in () if view is None else lake.read(view, columns=["offset"], equal=place):
        found |= bitmap_of(batch.column("offset").to_numpy())
    return found


def _dead_letters(lake: Lake, spec: TableSpec, built: Standing, at: ComparedPartition) -> Iterator[str]:
    """Yield how many dead letters of the partition have a key, by reason, with the first few offsets."""
    view = lake.load(spec.dead_letters_identifier) if at.built.counts.dead_letters else None
    if view is None:
        return
    equal = {"table_uuid": built.view.uuid, "topic": at.topic, "partition": at.number}
    counts, first = dict[str, int](), dict[str, list[int]]()
    for batch in lake.read(view, columns=["reason", "offset"], equal=equal):
        for reason, offset in zip(*(batch.column(name).to_pylist() for name in ("reason", "offset")), strict=True):
            counts[reason] = counts.get(reason, 0) + 1
            first[reason] = nsmallest(NAMED, [*first.get(reason, ()), offset])
    for reason in sorted(OF_KEYS & counts.keys()):
        yield f"{plural(counts[reason], 'dead letter')} ({reason}) at {_offsets(first[reason], counts[reason])}"


def _skipped(built: TableState, at: ComparedPartition) -> Iterator[str]:
    """Yield how many records with a key were skipped, by reason: those of all partitions."""
    found: Mapping[str, int] = built.skipped_by_reason if at.built.counts.skipped else {}
    for reason in sorted(OF_KEYS & found.keys()):
        yield f"{plural(found[reason], 'record')} skipped ({reason})"


def _offsets(first: Sequence[int], count: int) -> str:
    listed = ", ".join(map(str, first))
    return f"offset {listed}" if count == 1 else f"the offsets {listed}{', …' if count > len(first) else ''}"


def _instead_of_rewind(spec: TableSpec, table: TableState, facts: Sequence[TopicFacts]) -> str:
    """Return what to do instead of a rewind: a rebuild, if that needs the newest record of each key only."""
    earliest = {(each.topic, number): p.earliest for each in facts for number, p in each.partitions.items()}
    partitions = {(source.topic, n): p for source in table.sources for n, p in source.partitions.items()}
    by_newest = _is_by_offset(spec) and spec.on_tombstone == "delete"
    if by_newest and all(_rebuilds(p, earliest.get(where, 0)) for where, p in partitions.items()):
        return (
            f"read all records again, which needs the newest record of each key only: `frazil rebuild"
            f" {spec.identifier}`"
        )
    return f"{NEW_TABLE} to have what Kafka still has"


def _rebuilds(at: PartitionProgress, earliest: int) -> bool:
    """Return whether compaction does not keep a partition from being read again from its beginning."""
    is_kept = earliest <= at.origin or not at.counts.read
    return is_kept and at.last_incomplete == -1 and not at.counts.dead_letters + at.counts.skipped


def _too_few(spec: TableSpec, at: ComparedPartition, *, hint: str, why: str = "") -> RecordsLostError:
    return RecordsLostError(
        f"{spec.identifier}: {at.says}{why}. Readers see the table as it was",
        hint=f"{hint}; `frazil rebuild --discard {spec.identifier}` drops what was built",
    )
