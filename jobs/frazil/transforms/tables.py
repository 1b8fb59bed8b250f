"""The tables that one batch of a transformation reads, as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.adapters.spark.sql.rows import TableFiles
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import NoSparkTypeError, arrow_schema, spark_schema
from frazil.materialize.ingest.distribute import write_target
from frazil.model.columns import Column
from frazil.model.ingested import WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.ports import Lake
from frazil.transforms.unread import Unread


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table: those of some of its data files. `written` are these files with their statistics, if known."""

    view: TableView
    files: Sequence[StoredFile]
    written: Sequence[WrittenFile] = ()

    @property
    def name(self) -> str:
        """The name that the SQL uses."""
        return self.view.identifier.partition(".")[2]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that Spark has types for."""
        return tuple(column for column in self.view.columns if _is_readable(column))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.view.columns if not _is_readable(column))

    def frame(self, session: SqlSession, lake: Lake, needed: frozenset[str]) -> Any:
        """Return the rows with all columns; those that are not `needed` are null, and are not read."""
        names = needed or frozenset({self.columns[0].name})
        read = [column for column in self.columns if column.name in names]
        files = TableFiles(write_target(self.view), lake.storage, session.shares(self.files), arrow_schema(read))
        return session.frame(self.columns, files, sorted(names))


def _is_readable(column: Column) -> bool:
    try:
        spark_schema([column])
    except NoSparkTypeError:
        return False
    return True


def unread_rows(lake: Lake, view: TableView, unread: Unread) -> TableRows:
    """Return the rows of the followed table that a batch reads."""
    if unread.is_everything:
        return TableRows(view, lake.stored_files(view))
    added = [file for snapshot_id in unread.added_by for file in lake.added_files(view, snapshot_id)]
    return TableRows(view, [StoredFile(file.path, file.rows, size=file.size) for file in added], added)


def all_rows(lake: Lake, view: TableView) -> TableRows:
    return TableRows(view, lake.stored_files(view))


def heads(tables: Sequence[TableRows]) -> Mapping[str, int]:
    """Return the snapshots of tables that are read whole."""
    return {each.view.identifier: each.view.head for each in tables if each.view.head is not None}
