"""Whether Kafka still has the records that a rebuilt table needs: compaction may have removed some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from frazil.materialize.rebuild.checks import NEW_TABLE
from frazil.materialize.rebuild.rebuilt_state import progress_of, records_read
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import RecordsLostError
from frazil.model.plan import TopicFacts
from frazil.model.progress import PartitionProgress, TableState
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Lake

NAMED = 5
"""So many offsets of dead letters are named."""

OF_KEYS = frozenset(reason.value for reason in Reason if reason is not Reason.NULL_IDENTITY)
"""Why a record is a dead letter, or skipped as a bad one, that has a key: the row of its key stays as it was.

Records that are skipped for other reasons, such as heartbeats, are about no row.
"""


@dataclass(frozen=True, slots=True)
class _Partition:
    """One partition of which Kafka has fewer records than the table was made of."""

    topic: str
    number: int
    had: PartitionProgress
    built: PartitionProgress
    records_before: int
    records: int

    @property
    def has_same_rows(self) -> bool:
        """Return whether the rows of what was built are of the same records as those of the table."""
        return (self.had.live_rows, self.had.sums) == (self.built.live_rows, self.built.sums)


def check_complete(
    lake: Lake,
    spec: TableSpec,
    here: Standing,
    built: Standing,
    *,
    base: TableState | None,
    facts: Sequence[TopicFacts],
) -> None:
    """Raise RecordsLostError if Kafka has too few records of the same offsets for what was built in `lake`.

    `base` is the state that a rewind begins at: its rows may have deletes that compaction has removed. A rebuild needs
    the newest record of each key only, which compaction leaves, where offsets order the records and these are rows or
    deletes that take no values from the row before them.
    """
    for at in _lacking(here.state, built.state):
        if base is not None:
            raise _too_few(spec, at, hint=_instead_of_rewind(spec, here.state, facts))
        if not _is_by_offset(spec) or at.built.last_incomplete != -1:
            raise _too_few(spec, at, hint=f"{NEW_TABLE} to have what Kafka still has")
        if not at.has_same_rows:
            _check_newest(lake, spec, built, at)


def _lacking(table: TableState, built: TableState) -> Iterator[_Partition]:
    for source in table.sources:
        for number, had in sorted(source.partitions.items()):
            before, now = (records_read(state, source.topic, number) for state in (table, built))
            at = _Partition(source.topic, number, had, progress_of(built, source.topic, number), before, now)
            if at.built.origin <= had.origin and now < before:
                yield at


def _is_by_offset(spec: TableSpec) -> bool:
    return spec.write == "upsert" and not spec.order


def _check_newest(lake: Lake, spec: TableSpec, built: Standing, at: _Partition) -> None:
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


def _dead_letters(lake: Lake, spec: TableSpec, built: Standing, at: _Partition) -> Iterator[str]:
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


def _skipped(built: TableState, at: _Partition) -> Iterator[str]:
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


def _too_few(spec: TableSpec, at: _Partition, *, hint: str, why: str = "") -> RecordsLostError:
    return RecordsLostError(
        f"{spec.identifier}: the table was made of {plural(at.records_before, 'record')} of {at.topic}-{at.number} up"
        f" to offset {at.had.next}, and Kafka has {at.records:,} of them: compaction removed the others{why}. Readers"
        " see the table as it was",
        hint=f"{hint}; `frazil rebuild --discard {spec.identifier}` drops what was built",
    )
