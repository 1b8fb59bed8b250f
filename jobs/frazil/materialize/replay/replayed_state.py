"""The state of a table and the receipt after a replay: figures move from dead letters to rows, offsets stay.

In a table that follows keys, a dead letter may also become a delete or a duplicate, and its row may replace another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from frazil.materialize.account import Ingested, last_incomplete, without_rows
from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import (
    FollowedRecords,
    FollowedRows,
    IncompleteRecords,
    RangeResult,
    RouteRows,
    WrittenFile,
)
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.plan import BatchPlan
from frazil.model.progress import Counts, Fitted, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import Receipt
from frazil.model.remembered import RememberedDeletes
from frazil.model.routes import Group
from frazil.model.schemas import in_order
from frazil.model.spelling import plural
from frazil.modes.mode import BatchChange, Late, Written
from frazil.modes.truncation import OutOfTable
from frazil.proof.tally import sums_of

NO_OFFSETS: Offsets = np.empty(0, np.int64)
NONE_LATE = Late(OutOfTable(), 0)


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """What dead letters became: rows, by their files and their offsets by partition, and `deleting` records.

    Of a table that follows keys, `followed` is about each row, and `deletes` about each deleting record. `incomplete`
    are the change events among the rows that take values from the row before them.
    """

    files: tuple[WrittenFile, ...]
    offsets: Mapping[Source, Offsets]
    truncated_nanos: int = 0
    undeclared_fields: int = 0
    followed: tuple[FollowedRows, ...] = ()
    deletes: tuple[FollowedRecords, ...] = ()
    deleting: Mapping[Source, Offsets] = field(default_factory=dict)
    incomplete: tuple[IncompleteRecords, ...] = ()

    @property
    def rows(self) -> int:
        return sum(len(each) for each in self.offsets.values())

    @property
    def letters(self) -> dict[Source, Offsets]:
        """The dead letters that are none any more."""
        return joined([self.offsets, self.deleting])

    @property
    def written(self) -> Written:
        return Written(self.files, self.rows, self.followed, self.deletes, self.incomplete)


def joined(parts: Iterable[Mapping[Source, Offsets]]) -> dict[Source, Offsets]:
    """Return the offsets of all parts, by partition."""
    found: dict[Source, list[Offsets]] = {}
    for part in parts:
        for source, offsets in part.items():
            found.setdefault(source, []).append(offsets)
    return {source: np.concatenate(each) for source, each in sorted(found.items())}


def together(tables: Sequence[ReplayedRows], group: Group | None) -> dict[Source, Offsets]:
    """Return the offsets of the dead letters that the tables got: each shape has all of them."""
    has_shapes = group is not None and group.has_shapes
    return joined([table.letters for table in (tables[:1] if has_shapes else tables)])


def check(
    plans: Sequence[BatchPlan], got: Sequence[ReplayedRows], *, counted: Mapping[Source, int], group: Group | None
) -> None:
    """Raise CountMismatchError if the files do not hold the rows, or if there were not so many dead letters.

    `plans` and `got` are those of each table, `counted` is the number of dead letters.
    """
    for what, expected, found in _checks(plans, got, counted, group):
        if expected != found:
            raise CountMismatchError(
                f"{plans[0].table}: replay {plans[0].batch_id}: {what}: expected {expected}, found {found}; nothing was"
                " published",
                hint="run `frazil verify`; if it finds nothing, this is a defect in Frazil: report it with the log",
            )


def _checks(
    plans: Sequence[BatchPlan], got: Sequence[ReplayedRows], counted: Mapping[Source, int], group: Group | None
) -> Iterator[tuple[str, object, object]]:
    for plan, table in zip(plans, got, strict=True):
        yield f"rows in files of {plan.table}", table.rows, sum(file.rows for file in table.files)
        deletes = sum(map(len, table.deleting.values()))
        yield f"deletes of {plan.table}", deletes, sum(map(len, table.deletes))
        if group is not None and group.has_shapes:
            yield f"dead letters of {plan.table}", _ascending(got[0].letters), _ascending(table.letters)
    for source, offsets in together(got, group).items():
        name, letters = f"{source[0]}-{source[2]}", counted.get(source, 0)
        yield f"{name}: each dead letter once", len(offsets), len(np.unique(offsets))
        yield f"{name}: at most the {plural(letters, 'dead letter')} that are counted", True, len(offsets) <= letters


def _ascending(letters: Mapping[Source, Offsets]) -> dict[Source, list[int]]:
    return {source: np.sort(offsets).tolist() for source, offsets in letters.items()}


def of_group(state: TableState, got: Sequence[ReplayedRows], group: Group) -> Ingested:
    """Return what a replay adds to the state of a group: in each partition, dead letters became rows of the tables."""
    ends = {(s.topic, s.generation, n): p.next for s in state.sources for n, p in s.partitions.items()}
    ranges = tuple(
        RangeResult(
            topic=source[0],
            partition=source[2],
            start=ends[source],
            end=ends[source],
            stopped_by="end",
            counts=Counts(rows=len(offsets), dead_letters=-len(offsets)),
            sums=sums_of(offsets),
            gaps=0,
            payload_bytes=0,
            leader_epoch=None,
            skipped_by_reason={},
            dead_letters_by_reason={},
            routes=tuple(_rows_of(table, source) for table in got),
        )
        for source, offsets in together(got, group).items()
    )
    return Ingested(ranges, (), (), (), truncated_nanos=0)


def _rows_of(table: ReplayedRows, source: Source) -> RouteRows:
    rows, deletes = (offsets.get(source, NO_OFFSETS) for offsets in (table.offsets, table.deleting))
    return RouteRows(len(rows), sums_of(rows), len(deletes))


def state_after(
    plan: BatchPlan,
    got: ReplayedRows,
    change: BatchChange,
    *,
    writer: str,
    fitted: Fitted,
    is_grouped: bool,
    remembered: RememberedDeletes | None,
) -> TableState:
    """Return the state of a table after a replay: dead letters became rows; no offset was read.

    The dead letters of a group are counted in none of its tables: to them, these are further records of their routes,
    which may be from before the table was added.
    """
    before = plan.state
    moved = (
        _source(source, got, change.late, before.partition_numbers, is_grouped=is_grouped) for source in before.sources
    )
    return replace(
        without_rows(replace(before, sources=tuple(moved)), change.replaced),
        epoch=plan.epoch,
        writer=writer,
        batch_id=plan.batch_id,
        replayed_since=before.last_read,
        fitted=fitted,
        remembered=remembered,
        schema_ids=in_order({*before.schema_ids, *plan.schemas.values}),
        key_schema_ids=in_order({*before.key_schema_ids, *plan.schemas.keys}),
    )


def _source(
    source: SourceProgress,
    got: ReplayedRows,
    late: Mapping[int, Late],
    numbers: PartitionNumbers,
    *,
    is_grouped: bool,
) -> SourceProgress:
    partitions, last = {}, last_incomplete(got.incomplete)
    for number, progress in source.partitions.items():
        at = (source.topic, source.generation, number)
        rows, deletes = (offsets.get(at, NO_OFFSETS) for offsets in (got.offsets, got.deleting))
        late_here = late.get(numbers.number(source.topic, number), NONE_LATE)
        moved = _partition(progress, rows, deletes, late_here, is_grouped=is_grouped)
        partitions[number] = moved.with_incomplete(last.get(number, -1))
    return replace(source, partitions=partitions)


def _partition(
    progress: PartitionProgress, offsets: Offsets, deleting: Offsets, late: Late, *, is_grouped: bool
) -> PartitionProgress:
    letters = len(offsets) + len(deleting)
    if not letters:
        return replace(progress, start=progress.next)
    moved = Counts(
        read=letters if is_grouped else 0,
        rows=len(offsets) - late.rows.rows,
        deletes=len(deleting) - late.deletes,
        duplicates=late.rows.rows + late.deletes,
        dead_letters=0 if is_grouped else -letters,
    )
    return replace(
        progress,
        origin=min(progress.origin, int(offsets.min(initial=progress.origin))),
        start=progress.next,
        counts=progress.counts + moved,
        sums=progress.sums + sums_of(offsets) - late.rows.sums,
    )


def outcome_of(got: ReplayedRows, late: Iterable[Late]) -> Counts:
    """Return what became of dead letters, of which some were `late`: older than a stored row."""
    rows, deletes = got.rows, sum(map(len, got.deleting.values()))
    known = list(late)
    late_rows, late_deletes = sum(each.rows.rows for each in known), sum(each.deletes for each in known)
    return Counts(
        rows=rows - late_rows,
        deletes=deletes - late_deletes,
        duplicates=late_rows + late_deletes,
    )


def receipt_of(
    plan: BatchPlan, got: ReplayedRows, state: TableState, *, counts: Counts, seconds: Mapping[str, float]
) -> Receipt:
    return Receipt(
        table=plan.table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=(),
        counts=counts,
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=sum(file.size for file in got.files),
        files=len(got.files),
        truncated_nanos=got.truncated_nanos,
        undeclared_fields=got.undeclared_fields,
        complete_through=state.complete_through,
        foreign=state.foreign.names,
        seconds=dict(seconds),
        replayed=sum(map(len, got.letters.values())),
    )
