"""The state of a table and the receipt after a replay: figures move from dead letters to rows, offsets stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from frazil.materialize.beginning import Source
from frazil.materialize.dead_letter_marks import Offsets
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan
from frazil.model.progress import Counts, Fitted, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import Receipt
from frazil.model.schemas import in_order
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
    """Raise CountMismatchError if the files do not hold the rows."""
    in_files = sum(file.rows for file in got.files)
    if in_files != got.rows:
        raise CountMismatchError(
            f"{plan.table}: replay {plan.batch_id}: rows in files: expected {got.rows}, found {in_files}; nothing was"
            " published",
            hint="this is a defect in Frazil: report it with the log; the dead letters are as they were",
        )


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
