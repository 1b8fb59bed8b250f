"""The tables that one batch of a transformation reads, as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from frazil.adapters.spark.sql.comparable import except_all
from frazil.adapters.spark.sql.rows import Among, TableFiles
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import NoSparkTypeError, arrow_schema, spark_schema
from frazil.materialize.ingest.distribute import write_target
from frazil.model.changed_rows import RowsOfFile, changed
from frazil.model.columns import Column
from frazil.model.ingested import WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.ports import Lake
from frazil.transforms.unread import Unread


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table: those of some of its data files. `written` are these files with their statistics, if known.

    Each row of `less` is taken out of them once: they were written again in other files.
    """

    view: TableView
    files: Sequence[RowsOfFile]
    written: Sequence[WrittenFile] = ()
    less: Sequence[RowsOfFile] = ()

    @property
    def name(self) -> str:
        """The name that the SQL uses."""
        return self.view.identifier.partition(".")[2]

    @property
    def rows(self) -> int:
        return sum(map(live_rows, self.files)) - sum(map(live_rows, self.less))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that Spark has types for."""
        return tuple(column for column in self.view.columns if _is_readable(column))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.view.columns if not _is_readable(column))

    def frame(self, session: SqlSession, lake: Lake, needed: frozenset[str], among: Sequence[Among] = ()) -> Any:
        """Return the rows with all columns; those that are not `needed` are null, and are not read.

        Rows that `among`, of needed columns, leaves out may be missing.
        """
        names = needed or frozenset({self.columns[0].name})
        read = [column for column in self.columns if column.name in names]
        if self.less and not needed:
            read = list(self.columns)

        def rows_of(files: Sequence[RowsOfFile]) -> Any:
            shares = session.shares(files)
            found = TableFiles(write_target(self.view), lake.storage, shares, arrow_schema(read), among)
            return session.frame(self.columns, found, [column.name for column in read])

        return except_all(rows_of(self.files), rows_of(self.less)) if self.less else rows_of(self.files)


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a followed table between two snapshots: rows added, rows taken out, and all that are there now.

    Rows that were only written again are in neither of the first two.
    """

    added: TableRows
    removed: TableRows
    now: TableRows

    @property
    def is_empty(self) -> bool:
        return not self.added.files and not self.removed.files


def live_rows(file: RowsOfFile) -> int:
    return file.left if isinstance(file, StoredFile) else file.rows


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
    found: list[StoredFile] = []
    written: list[WrittenFile] = []
    for snapshot_id in unread.added_by:
        added = lake.added_files(view, snapshot_id)
        found += _with_deletes(lake, view, snapshot_id, added)
        written += added
    return TableRows(view, found, written)


def _with_deletes(lake: Lake, view: TableView, snapshot_id: int, added: Sequence[WrittenFile]) -> Sequence[StoredFile]:
    """Return files that a snapshot added, with the deletes that it added for them."""
    if not view.snapshots[snapshot_id].figure("added-position-deletes"):
        return [StoredFile(file.path, file.rows, size=file.size) for file in added]
    paths = {file.path for file in added}
    return [file for file in lake.stored_files(replace(view, head=snapshot_id)) if file.path in paths]


def all_rows(lake: Lake, view: TableView) -> TableRows:
    return TableRows(view, lake.stored_files(view))


def rows_between(lake: Lake, view: TableView, after: int | None, upto: int) -> TableRows:
    """Return the rows that a table to which rows are added got after one snapshot and up to another one.

    Both must be there. With None, all rows up to the second.
    """
    now = lake.stored_files(replace(view, head=upto))
    if after is None:
        return TableRows(view, now)
    added, removed = changed(lake.stored_files(replace(view, head=after)), now)
    return TableRows(view, added, less=removed)


def changes_between(lake: Lake, view: TableView, after: int, upto: int) -> Changes:
    """Return what became of a table after one snapshot and up to another one. Both must be there."""
    now = lake.stored_files(replace(view, head=upto))
    added, removed = changed(lake.stored_files(replace(view, head=after)), now)
    less = (removed, added) if added and removed else ((), ())
    return Changes(TableRows(view, added, less=less[0]), TableRows(view, removed, less=less[1]), TableRows(view, now))
