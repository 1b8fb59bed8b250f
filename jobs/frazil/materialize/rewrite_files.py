"""Data files of which many rows are deleted are written again between batches (docs/decisions/0042)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.maintain.rewriting import may_be_due, to_rewrite
from frazil.materialize.clients import Clients
from frazil.materialize.even_shares import even_shares
from frazil.materialize.ingest.distribute import write_target
from frazil.model.errors import CommitError, CountMismatchError, FrazilError
from frazil.model.ingested import DroppedFile, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.rewrites import RewriteTask
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.summary import REWRITTEN_BY

ROWS_OF_A_TASK = 50_000
"""Rows that one task writes faster than several could be started."""

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Rewriting:
    """Rewrites files of one table. An error here does not fail a batch: the files stay as they are."""

    spec: TableSpec
    writer: str
    looked_at: int | None = None
    """The head whose files had too few deleted rows, or could not be rewritten."""

    def between_batches(self, clients: Clients, view: TableView) -> None:
        """Rewrite files if it pays, and if the table's head is still that of the view."""
        try:
            self._rewrite(clients, view)
        except CommitError as refused:
            LOG.info("rewrite_overtaken", extra={"table": view.identifier, "problem": str(refused)})
        except FrazilError as failed:
            LOG.warning("rewrite_failed", extra={"table": view.identifier, "problem": str(failed)})

    def _rewrite(self, clients: Clients, view: TableView) -> None:
        head, share = view.head_snapshot(), self.spec.maintain.rewrite_deleted
        if self.spec.write == "append" or head is None or head.id == self.looked_at or not may_be_due(head, share):
            return
        self.looked_at = head.id
        files = to_rewrite(clients.lake.stored_files(view), share)
        if not files:
            return
        written = self._written(clients, view, files)
        left = sum(file.rows for file in written)
        dropped = [DroppedFile(each.path, tuple(own.path for own in each.own_deletes)) for each in files]
        figures = {
            "added-records": left,
            "deleted-records": sum(each.rows for each in files),
            "removed-position-deletes": sum(each.deleted for each in files),
            "added-position-deletes": 0,
        }
        clients.lake.rewrite(view, files=written, dropped=dropped, summary={REWRITTEN_BY: self.writer}, figures=figures)
        deleted = sum(each.rows for each in files) - left
        LOG.info("files_rewritten", extra={"table": view.identifier, "files": len(files), "deleted_rows": deleted})

    def _written(self, clients: Clients, view: TableView, files: Sequence[StoredFile]) -> Sequence[WrittenFile]:
        """Return the new files. Raises CountMismatchError unless they have all rows that are not deleted."""
        clients.runner.start()
        rows = sum(each.rows for each in files)
        count = 1 if rows <= ROWS_OF_A_TASK else min(clients.runner.parallelism, len(files))
        tasks = [
            RewriteTask(
                target=write_target(view),
                files=share,
                prefix=f"{self.writer}-rewrite",
                target_bytes=self.spec.maintain.target_file_bytes,
                storage=clients.lake.storage,
            )
            for share in even_shares(files, size=_rows, count=count)
        ]
        done = clients.runner.rewrite(tasks, name=f"{view.identifier} rewrite of {plural(len(files), 'file')}")
        written = [file for each in done for file in each.files]
        expected, found = rows - sum(each.deleted for each in done), sum(file.rows for file in written)
        if found != expected:
            raise CountMismatchError(
                f"{view.identifier}: {plural(len(files), 'file')} with {expected:,} rows that are not deleted became"
                f" {plural(len(written), 'file')} with {found:,}; nothing was changed",
                hint="this is a defect in Frazil: report it with the log; the table is intact",
            )
        return written


def _rows(file: StoredFile) -> int:
    return file.rows
