"""The state of a table and the receipt after a replay: figures move from dead letters to rows, offsets stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.materialize.account import Ingested
from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import RangeResult, RouteRows, WrittenFile
from frazil.model.plan import BatchPlan
from frazil.model.progress import Counts, Fitted, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import Receipt
from frazil.model.schemas import in_order
from frazil.model.spelling import plural
from frazil.proof.tally import sums_of


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """The rows that dead letters became: their files, and their offsets by partition."""

    files: tuple[WrittenFile, ...]
    offsets: Mapping[Source, Offsets]
    truncated_nanos: int = 0
    undeclared_fields: int = 0

    @property
    def rows(self) -> int:
        return sum(len(each) for each in self.offsets.values())


def together(tables: Sequence[ReplayedRows]) -> dict[Source, Offsets]:
    """Return the offsets of the rows of all tables."""
    found: dict[Source, list[Offsets]] = {}
    for table in tables:
        for source, offsets in table.offsets.items():
            found.setdefault(source, []).append(offsets)
    return {source: np.concatenate(parts) for source, parts in sorted(found.items())}


def check(plans: Sequence[BatchPlan], got: Sequence[ReplayedRows], *, counted: Mapping[Source, int]) -> None:
    """Raise CountMismatchError if the files do not hold the rows, or if there were not so many dead letters.

    `plans` and `got` are those of each table, `counted` is the number of dead letters.
    """
    for what, expected, found in _checks(plans, got, counted):
        if expected != found:
            raise CountMismatchError(
                f"{plans[0].table}: replay {plans[0].batch_id}: {what}: expected {expected}, found {found}; nothing was"
                " published",
                hint="run `frazil verify`; if it finds nothing, this is a defect in Frazil: report it with the log",
            )


def _checks(
    plans: Sequence[BatchPlan], got: Sequence[ReplayedRows], counted: Mapping[Source, int]
) -> Iterator[tuple[str, object, object]]:
    for plan, table in zip(plans, got, strict=True):
        yield f"rows in files of {plan.table}", table.rows, sum(file.rows for file in table.files)
    for source, offsets in together(got).items():
        name, letters = f"{source[0]}-{source[2]}", counted.get(source, 0)
        yield f"{name}: each dead letter once", len(offsets), len(np.unique(offsets))
        yield f"{name}: at most the {plural(letters, 'dead letter')} that are counted", True, len(offsets) <= letters


def of_group(state: TableState, got: Sequence[ReplayedRows]) -> Ingested:
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
            routes=tuple(_rows_of(table.offsets.get(source)) for table in got),
        )
        for source, offsets in together(got).items()
    )
    return Ingested(ranges, (), (), (), truncated_nanos=0)


def _rows_of(offsets: Offsets | None) -> RouteRows:
    return RouteRows() if offsets is None else RouteRows(len(offsets), sums_of(offsets))


def state_after(plan: BatchPlan, got: ReplayedRows, *, writer: str, fitted: Fitted, is_grouped: bool) -> TableState:
    """Return the state of a table after a replay: dead letters became rows; no offset was read.

    The dead letters of a group are counted in none of its tables: to them, these are further records of their routes,
    which may be from before the table was added.
    """
    before = plan.state
    return replace(
        before,
        epoch=plan.epoch,
        writer=writer,
        batch_id=plan.batch_id,
        replayed_since=before.last_read,
        fitted=fitted,
        sources=tuple(_source(source, got, is_grouped=is_grouped) for source in before.sources),
        schema_ids=in_order({*before.schema_ids, *plan.schemas.values}),
        key_schema_ids=in_order({*before.key_schema_ids, *plan.schemas.keys}),
    )


def _source(source: SourceProgress, got: ReplayedRows, *, is_grouped: bool) -> SourceProgress:
    partitions = {
        number: _partition(progress, got.offsets.get((source.topic, source.generation, number)), is_grouped=is_grouped)
        for number, progress in source.partitions.items()
    }
    return replace(source, partitions=partitions)


def _partition(progress: PartitionProgress, offsets: Offsets | None, *, is_grouped: bool) -> PartitionProgress:
    if offsets is None:
        return replace(progress, start=progress.next)
    rows = len(offsets)
    moved = Counts(read=rows, rows=rows) if is_grouped else Counts(rows=rows, dead_letters=-rows)
    return replace(
        progress,
        origin=min(progress.origin, int(offsets.min())),
        start=progress.next,
        counts=progress.counts + moved,
        sums=progress.sums + sums_of(offsets),
    )


def receipt_of(plan: BatchPlan, got: ReplayedRows, state: TableState, *, seconds: Mapping[str, float]) -> Receipt:
    return Receipt(
        table=plan.table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=(),
        counts=Counts(),
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
        replayed=got.rows,
    )
