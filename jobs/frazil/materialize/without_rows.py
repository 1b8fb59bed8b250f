"""Take rows out of a table, in a batch of its own that reads nothing from Kafka: the state counts them as forgotten.

As a replay does, it overtakes every batch that is under way, which is then planned again (`verdicts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa

from frazil.materialize.branches import BaseExpiredError, Staged, stage_with_state
from frazil.materialize.dead_letters import drop_others, prepare, reveal
from frazil.materialize.foreign import count_foreign
from frazil.materialize.publish import Share, publish
from frazil.materialize.state import Standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import Counts, ForeignChanges, OffsetSums, PartitionProgress, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.mode import BatchChange
from frazil.ports import Lake
from frazil.proof.sources import SourceColumns, add_batch, progress_by_source
from frazil.proof.tally import Tallies, Tally, TopicPartition


@dataclass(frozen=True, slots=True)
class WithoutRows:
    """Makes a table without some of its rows visible. `names` gives the branch of each attempt."""

    lake: Lake
    spec: TableSpec
    writer: str
    names: Iterator[str]

    def publish(
        self, here: Standing, change: BatchChange, gone: Tallies, *, batch_id: str, began: float | None
    ) -> TableView:
        """Make the change visible, which takes out the rows in `gone`; return the table with it.

        `began` is `elapsed_seconds()` before the first file was written. Raises OvertakenError if another process
        committed first, and what `publish` of a batch raises.
        """
        plan = BatchPlan(
            table=self.spec.identifier,
            batch_id=batch_id,
            base_snapshot_id=here.carrier.id,
            state=here.state,
            ranges=(),
            schemas=WriterSchemas({}, {}),
            topics=(),
            table_uuid=here.view.uuid,
            is_replay=True,
        )
        staged = self._staged(here, plan, change, gone)
        letters = self.spec.dead_letters_identifier
        has_letters = self.lake.load(letters) is not None
        if has_letters:
            prepare(self.lake, letters, plan=plan, writer=self.writer, files=())
        (view,) = publish(self.lake, [Share(plan, staged, _begin_again, began=began)])
        state = replace(here.state, epoch=plan.epoch, batch_id=batch_id)
        if has_letters:
            reveal(self.lake, letters, state=state, rows=self.spec.identifier, rows_uuid=plan.table_uuid)
            drop_others(self.lake, letters, plan=plan)
        return view

    def _staged(self, here: Standing, plan: BatchPlan, change: BatchChange, gone: Tallies) -> Staged:
        state = state_after(plan, gone, writer=self.writer, foreign=count_foreign(here))
        receipt = _receipt(plan, state, change, gone)
        try:
            return stage_with_state(self.lake, here.view, names=self.names, change=change, state=state, receipt=receipt)
        except BaseExpiredError as expired:
            raise OvertakenError("the head expired") from expired


def tallied(columns: SourceColumns, here: Standing, rows: Iterable[pa.RecordBatch]) -> Tallies:
    """Count rows of a table by their source."""
    known = progress_by_source(here.state)
    tallies = Tallies({at: Tally(each.origin, each.next) for at, each in known.items()})
    for batch in rows:
        add_batch(tallies, columns, batch)
    return tallies


def not_as_written(gone: Tallies) -> list[str]:
    """Return what is wrong with rows that no figure could account for: `verify` has findings about them already."""
    problems = [f"{t}-{n}: offsets twice" for (t, n), each in gone.by_source.items() if each.doubled]
    problems += [f"{t}-{n}: offsets never read" for (t, n), each in gone.by_source.items() if each.outside]
    return problems + [f"{t}-{n}: a partition that was never read" for t, n in gone.strangers]


def state_after(plan: BatchPlan, gone: Tallies, *, writer: str, foreign: ForeignChanges) -> TableState:
    """Return the state without these rows. Those of others, which have no source, count as removed by others."""
    before, theirs = plan.state, ForeignChanges(rows_removed=gone.unsourced, unsourced_added=-gone.unsourced)
    sources = tuple(
        replace(
            source,
            partitions={n: _without(each, gone, (source.topic, n)) for n, each in source.partitions.items()},
        )
        for source in before.sources
    )
    return replace(
        before,
        sources=sources,
        epoch=plan.epoch,
        writer=writer,
        batch_id=plan.batch_id,
        replayed_since=before.last_read,
        foreign=foreign + theirs,
    )


def _without(progress: PartitionProgress, gone: Tallies, at: TopicPartition) -> PartitionProgress:
    tally = gone.by_source[at]
    before = progress.forgotten_sums if progress.forgotten else OffsetSums()
    return replace(
        progress,
        start=progress.next,
        sums=progress.sums - tally.sums,
        forgotten=progress.forgotten + len(tally.seen),
        forgotten_sums=None if before is None else before + tally.sums,
    )


def _receipt(plan: BatchPlan, state: TableState, change: BatchChange, gone: Tallies) -> Receipt:
    return Receipt(
        table=plan.table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=(),
        counts=Counts(),
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=sum(file.size for file in change.files),
        files=len(change.files),
        truncated_nanos=0,
        complete_through=state.complete_through,
        foreign=state.foreign.names,
        forgotten=gone.rows,
    )


def _begin_again(now: Standing) -> NoReturn:
    """Others have committed: the rows are looked for again."""
    raise OvertakenError("another process committed first")
