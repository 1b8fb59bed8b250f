"""The batches of a rebuild."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.materialize.one_table import OneTable
from frazil.materialize.run import TableRun
from frazil.model.delta import Announced
from frazil.model.snapshot import TableView


class BuildRun(TableRun):
    """Batches that are announced to no reader, and of which no snapshot expires."""

    def _announce(self, table: OneTable, view: TableView) -> Announced | None:
        del table, view
        return None

    def _housekeep(self, views: Sequence[TableView]) -> None:
        del views
