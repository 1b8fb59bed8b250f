"""The batches of a rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from frazil.materialize.account import Ingested
from frazil.materialize.group.complete import Places
from frazil.materialize.one_table import OneTable
from frazil.materialize.run import TableRun
from frazil.materialize.stage import ReadBatch
from frazil.model.delta import Announced
from frazil.model.plan import BatchPlan
from frazil.model.snapshot import TableView

FOR_EVER = timedelta(days=365 * 200)


class BuildRun(TableRun):
    """Batches that are announced to no reader, and of which no snapshot expires.

    They forget no delete because of its age: the records that are read again may be older than `delete_memory` by now,
    and came in time when they were read first. Batches of the rebuilt table forget what is old.
    """

    def _read_batch(self, table: OneTable, plan: BatchPlan, here: Places, got: Ingested, at: datetime) -> ReadBatch:
        batch = super()._read_batch(table, plan, here, got, at)
        return replace(batch, spec=replace(batch.spec, delete_memory=FOR_EVER))

    def _announce(self, table: OneTable, view: TableView) -> Announced | None:
        del table, view
        return None

    def _housekeep(self, views: Sequence[TableView]) -> None:
        del views
