"""Erase rows, in a batch of its own that reads nothing from Kafka: the state counts them as forgotten.

As a replay does, it overtakes every batch that is under way, which is then planned again (`materialize/verdicts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import pyarrow.parquet as pq

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.valued_rows import rows_with
from frazil.forget.matching import Places
from frazil.forget.rewriting import Rewritten, affected_by, rewrite_without
from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.branches import BaseExpiredError, Staged, stage_with_state
from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.dead_letters import drop_others, prepare, reveal
from frazil.materialize.foreign import count_foreign
from frazil.materialize.publish import Share, publish
from frazil.materialize.state import Standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.errors import ErasureError
from frazil.model.ingested import ForgottenFiles
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import Counts, ForeignChanges, OffsetSums, PartitionProgress, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.traces import SoughtValue, Traces
from frazil.modes.mode import BatchChange
from frazil.ports import Lake
from frazil.proof.sources import progress_by_source, source_columns
from frazil.proof.tally import Tallies, Tally, TopicPartition
from frazil.verify.scan import add_batch


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """Rows that are written out of their files, and not out of the table yet.

    `tallies` has them by partition; `began` is `elapsed_seconds()` before the first file was written.
    """

    rewritten: Rewritten
    tallies: Tallies
    began: float

    @property
    def rows(self) -> int:
        return self.tallies.rows


@dataclass(frozen=True, slots=True)
class RowErasure:
    """Erases the rows of a table that have a value. `names` gives the branch of each attempt."""

    lake: Lake
    spec: TableSpec
    writer: str
    sought: SoughtValue
    names: Iterator[str]

    def rewrite(self, here: Standing, traces: Traces) -> ErasedRows:
        """Write the files with traces anew. The table stays as it is.

        Raises ErasureError, CatalogError and CountMismatchError.
        """
        view, began = here.view, elapsed_seconds()
        spec = as_applied(self.spec, view.properties)
        columns = source_columns(spec, here.state)
        rewritten = rewrite_without(
            self.lake,
            view,
            affected_by(self.lake, view, {each.address for each in traces.found}),
            lambda file: self._positions_in(view, file.path),
            columns=columns.names,
            prefix=f"{self.writer}-forget",
            target_bytes=self.spec.maintain.target_file_bytes,
        )
        known = progress_by_source(here.state)
        tallies = Tallies({at: Tally(each.origin, each.next) for at, each in known.items()})
        for batch in rewritten.erased:
            add_batch(tallies, columns, batch)
        _check(view, tallies)
        return ErasedRows(rewritten, tallies, began)

    def _positions_in(self, view: TableView, path: str) -> Positions:
        with reading(view.identifier), view.current.io.new_input(path).open() as stream:
            found = rows_with(self.sought, pq.ParquetFile(stream))
        return np.empty(0, np.int64) if found is None else found

    def publish(self, here: Standing, erased: ErasedRows, *, batch_id: str) -> int:
        """Make the table without the rows visible; return its snapshot.

        Raises OvertakenError if another process committed first, and what `publish` of a batch raises.
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
        staged = self._staged(here, plan, erased)
        letters = self.spec.dead_letters_identifier
        has_letters = self.lake.load(letters) is not None
        if has_letters:
            prepare(self.lake, letters, plan=plan, writer=self.writer, files=())
        (view,) = publish(self.lake, [Share(plan, staged, _begin_again, began=erased.began)])
        state = replace(here.state, epoch=plan.epoch, batch_id=batch_id)
        if has_letters:
            reveal(self.lake, letters, state=state, rows=self.spec.identifier, rows_uuid=plan.table_uuid)
            drop_others(self.lake, letters, plan=plan)
        assert view.head is not None  # noqa: S101 - it was just published
        return view.head

    def _staged(self, here: Standing, plan: BatchPlan, erased: ErasedRows) -> Staged:
        done = erased.rewritten
        state = state_after(plan, erased.tallies, writer=self.writer, foreign=count_foreign(here))
        receipt = _receipt(plan, state, erased)
        change = BatchChange(done.files, done.figures, deletes=(ForgottenFiles(done.dropped),))
        try:
            return stage_with_state(self.lake, here.view, names=self.names, change=change, state=state, receipt=receipt)
        except BaseExpiredError as expired:
            raise OvertakenError("the head expired") from expired


def places_of(here: Standing, erased: ErasedRows) -> Places:
    """Return the places of the dead letters that became these rows."""
    generations = {source.topic: source.generation for source in here.state.sources}
    return Places(
        {
            (here.view.uuid, topic, generations[topic], number): tally.seen
            for (topic, number), tally in erased.tallies.by_source.items()
            if tally.seen
        }
    )


def state_after(plan: BatchPlan, erased: Tallies, *, writer: str, foreign: ForeignChanges) -> TableState:
    """Return the state without the erased rows. Those of others, which have no source, count as removed by others."""
    before, theirs = plan.state, ForeignChanges(rows_removed=erased.unsourced, unsourced_added=-erased.unsourced)
    sources = tuple(
        replace(
            source,
            partitions={n: _without(each, erased, (source.topic, n)) for n, each in source.partitions.items()},
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


def _without(progress: PartitionProgress, erased: Tallies, at: TopicPartition) -> PartitionProgress:
    tally = erased.by_source[at]
    before = progress.forgotten_sums if progress.forgotten else OffsetSums()
    return replace(
        progress,
        start=progress.next,
        sums=progress.sums - tally.sums,
        forgotten=progress.forgotten + len(tally.seen),
        forgotten_sums=None if before is None else before + tally.sums,
    )


def _check(view: TableView, erased: Tallies) -> None:
    """Raise ErasureError for rows that no figure could account for: `verify` has findings about them already."""
    problems = [f"{t}-{n}: offsets twice" for (t, n), each in erased.by_source.items() if each.doubled]
    problems += [f"{t}-{n}: offsets never read" for (t, n), each in erased.by_source.items() if each.outside]
    problems += [f"{t}-{n}: a partition that was never read" for t, n in erased.strangers]
    if problems:
        raise ErasureError(
            f"{view.identifier}: rows to erase are not as they were written ({'; '.join(problems)});"
            " nothing was erased",
            hint="run `frazil verify` and fix what it finds, then run it again",
        )


def _receipt(plan: BatchPlan, state: TableState, erased: ErasedRows) -> Receipt:
    files = erased.rewritten.files
    return Receipt(
        table=plan.table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=(),
        counts=Counts(),
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=sum(file.size for file in files),
        files=len(files),
        truncated_nanos=0,
        complete_through=state.complete_through,
        foreign=state.foreign.names,
        forgotten=erased.rows,
    )


def _begin_again(now: Standing) -> NoReturn:
    """Others have committed: the rows are looked for again."""
    raise OvertakenError("another process committed first")
