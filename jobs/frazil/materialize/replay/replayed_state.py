"""The state of a table and the receipt after a replay: figures move from dead letters to rows, offsets stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import WrittenFile
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


def check(plan: BatchPlan, got: ReplayedRows) -> None:
    """Raise CountMismatchError if the files do not hold the rows, or if there were not so many dead letters."""
    for what, expected, found in _checks(plan, got):
        if expected != found:
            raise CountMismatchError(
                f"{plan.table}: replay {plan.batch_id}: {what}: expected {expected}, found {found}; nothing was"
                " published",
                hint="run `frazil verify`; if it finds nothing, this is a defect in Frazil: report it with the log",
            )


def _checks(plan: BatchPlan, got: ReplayedRows) -> Iterator[tuple[str, object, object]]:
    yield "rows in files", got.rows, sum(file.rows for file in got.files)
    left = {(s.topic, s.generation, n): p.counts for s in plan.state.sources for n, p in s.partitions.items()}
    for source, offsets in sorted(got.offsets.items()):
        name = f"{source[0]}-{source[2]}"
        counted = left[source].dead_letters if source in left else 0
        yield f"{name}: each dead letter once", len(offsets), len(np.unique(offsets))
        yield f"{name}: at most the {plural(counted, 'dead letter')} that are counted", True, len(offsets) <= counted


def state_after(plan: BatchPlan, got: ReplayedRows, *, writer: str, fitted: Fitted) -> TableState:
    """Return the state after a replay: dead letters became rows; no offset was read."""
    before = plan.state
    return replace(
        before,
        epoch=plan.epoch,
        writer=writer,
        batch_id=plan.batch_id,
        replayed_since=before.last_read,
        fitted=fitted,
        sources=tuple(_source(source, got) for source in before.sources),
        schema_ids=in_order({*before.schema_ids, *plan.schemas.values}),
        key_schema_ids=in_order({*before.key_schema_ids, *plan.schemas.keys}),
    )


def _source(source: SourceProgress, got: ReplayedRows) -> SourceProgress:
    partitions = {
        number: _partition(progress, got.offsets.get((source.topic, source.generation, number)))
        for number, progress in source.partitions.items()
    }
    return replace(source, partitions=partitions)


def _partition(progress: PartitionProgress, offsets: Offsets | None) -> PartitionProgress:
    if offsets is None:
        return replace(progress, start=progress.next)
    moved = Counts(rows=len(offsets), dead_letters=-len(offsets))
    return replace(progress, start=progress.next, counts=progress.counts + moved, sums=progress.sums + sums_of(offsets))


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
