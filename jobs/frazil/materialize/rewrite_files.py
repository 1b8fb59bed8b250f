"""Data files that make scans slow are written again between batches (docs/decisions/0042)."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.maintain.rewriting import COPIES, PASS_BYTES, may_be_due, to_rewrite
from frazil.materialize.clients import Clients
from frazil.materialize.even_shares import even_shares
from frazil.materialize.ingest.distribute import write_target
from frazil.model.errors import CommitError, CountMismatchError, FrazilError
from frazil.model.ingested import DroppedFile, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.rewrites import RewriteTask
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.summary import REWRITTEN_BY

ROWS_OF_A_TASK = 500_000
"""Rows that one task writes, if no more are in its files: each task makes a file for each of its partitions."""

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Rewriting:
    """Rewrites files of one table. An error here does not fail a batch: the files stay as they are."""

    spec: TableSpec
    writer: str
    looked_at: int | None = None
    """The head whose files were not to be rewritten, or could not be."""

    copies: int | None = None
    """The rows that rewrites may copy: all of the table at first, and then more with each batch."""

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
        if self.spec.write == "append" or head is None or head.id == self.looked_at:
            return
        self.looked_at = head.id
        copies = self._allowed_after(head)
        if not may_be_due(head, share):
            return
        files = to_rewrite(clients.lake.stored_files(view), share, full=self._full_bytes, copies=copies)
        if not files:
            return
        began = time.monotonic()
        written = self._written(clients, view, files)
        left = sum(file.rows for file in written)
        self.copies = copies - left
        dropped = [DroppedFile(each.path, tuple(own.path for own in each.own_deletes)) for each in files]
        figures = {
            "added-records": left,
            "deleted-records": sum(each.rows for each in files),
            "removed-position-deletes": sum(each.deleted for each in files),
            "added-position-deletes": 0,
        }
        clients.lake.rewrite(view, files=written, dropped=dropped, summary={REWRITTEN_BY: self.writer}, figures=figures)
        deleted = sum(each.rows for each in files) - left
        seconds = round(time.monotonic() - began, 3)
        done = {"files": len(files), "deleted_rows": deleted, "copied_rows": left, "seconds": seconds}
        LOG.info("files_rewritten", extra={"table": view.identifier, **done})

    def _allowed_after(self, head: Snapshot) -> int:
        """Return the rows that a rewrite may copy after the batch of this head: never more than the table has."""
        rows = head.figure("total-records")
        self.copies = rows if self.copies is None else min(self.copies + COPIES * head.figure("added-records"), rows)
        return self.copies

    @property
    def _full_bytes(self) -> int:
        return min(self.spec.maintain.target_file_bytes, PASS_BYTES)

    def _written(self, clients: Clients, view: TableView, files: Sequence[StoredFile]) -> Sequence[WrittenFile]:
        """Return the new files. Raises CountMismatchError unless they have all rows that are not deleted."""
        clients.runner.start()
        rows = sum(each.rows for each in files)
        tasks = [
            RewriteTask(
                target=write_target(view),
                files=share,
                prefix=f"{self.writer}-rewrite",
                target_bytes=self._full_bytes,
                storage=clients.lake.storage,
            )
            for share in task_shares(files, at_most=clients.runner.parallelism)
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


def task_shares(files: Sequence[StoredFile], *, at_most: int) -> list[list[StoredFile]]:
    """Divide files so that those of a partition are in one task, or in several if they have too many rows for one."""
    partitions: defaultdict[object, list[StoredFile]] = defaultdict(list)
    for each in files:
        partitions[each.partition].append(each)
    parts = [part for alike in partitions.values() for part in _divided(alike, _tasks_for(alike, at_most))]
    shares = even_shares(parts, size=_rows, count=min(_tasks_for(files, at_most), len(parts)))
    return [[each for part in share for each in part] for share in shares if share]


def _divided(files: Sequence[StoredFile], count: int) -> list[list[StoredFile]]:
    return [part for part in even_shares(files, size=_left, count=count) if part]


def _tasks_for(files: Sequence[StoredFile], at_most: int) -> int:
    return max(1, min(at_most, math.ceil(_rows(files) / ROWS_OF_A_TASK)))


def _rows(files: Sequence[StoredFile]) -> int:
    return sum(map(_left, files))


def _left(file: StoredFile) -> int:
    return file.left
