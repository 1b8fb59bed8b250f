"""Data files that make scans slow are written again between batches (docs/decisions/0042, docs/decisions/0058)."""

from __future__ import annotations

import logging
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from frazil.maintain.expiring import elapsed_seconds
from frazil.maintain.figures import added_rows
from frazil.maintain.merging import LAST_SHARE, Merge, is_time_to_look, pays_after, to_merge
from frazil.maintain.rewriting import COPIES, PASS_BYTES, ScanCost, may_be_due, to_rewrite
from frazil.materialize.batch_age import is_old
from frazil.materialize.clients import Clients
from frazil.materialize.even_shares import even_shares
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.materialize.schema.former_names import former_names_of
from frazil.model.errors import CommitError, CommitRejectedError, CountMismatchError, FrazilError
from frazil.model.identity_columns import column_at
from frazil.model.ingested import DroppedFile, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.rewrites import RewriteTask
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import Maintain, WriteMode
from frazil.model.spelling import plural
from frazil.model.summary import REWRITTEN_BY

ROWS_OF_A_TASK = 500_000
"""Rows that one task writes, if no more are in its files: each task makes a file for each of its partitions."""

HOT_BATCHES = 10
"""A partition is cold if none of so many last batches added a file to it."""

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Files to rewrite, and what a scan is then spared, in rows. Of each of the `merges`, one file is made."""

    files: Sequence[StoredFile]
    saved: int
    merges: Sequence[Merge] = ()

    @classmethod
    def of(cls, merges: Sequence[Merge]) -> Chosen:
        return cls([file for each in merges for file in each.files], sum(each.saved for each in merges), merges)

    @property
    def rows(self) -> int:
        return _rows(self.files)

    def shares(self, *, at_most: int) -> list[list[StoredFile]]:
        """Divide the files among tasks."""
        if not self.merges:
            return task_shares(self.files, at_most=at_most)
        shares = even_shares(self.merges, size=lambda each: each.rows, count=min(at_most, len(self.merges)))
        return [[file for merge in share for file in merge.files] for share in shares]


NOTHING_CHOSEN = Chosen((), 0)


@dataclass(frozen=True, slots=True)
class Rewrote:
    """What a rewrite did to a table's files: `saved` are the rows that a scan could read in the time that it saves."""

    files: int
    into: int
    copied_rows: int
    deleted_rows: int
    saved: int
    seconds: float

    def __str__(self) -> str:
        into = plural(self.into, "file")
        return f"{plural(self.files, 'file')} became {into}, {benefit(self.copied_rows, self.saved)}"


def benefit(copied: int, saved: int) -> str:
    """Return the cost of a rewrite and its benefit, in rows: `copying 1,000 rows saves a scan 10,000 rows' time`."""
    return (
        f"{plural(copied, 'row')} copied; each scan of these files saves the time of {plural(saved, 'row')}, which pays"
        f" after {plural(pays_after(copied, saved), 'scan')}"
    )


class RewrittenTable(Protocol):
    """What the rewriting of files needs to know of a table: a `TableSpec`, or the table of a transformation."""

    @property
    def maintain(self) -> Maintain: ...

    @property
    def write(self) -> WriteMode: ...

    @property
    def batch_rows(self) -> int: ...


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table without a spec of its own, whose batches have all rows: of a transformation, or of dead letters."""

    maintain: Maintain
    write: WriteMode
    batch_rows: int = sys.maxsize


@dataclass(slots=True)
class Rewriting:
    """Rewrites files of one table. An error here does not fail a batch: the files stay as they are."""

    spec: RewrittenTable
    writer: str
    looked_at: int | None = None
    """The head whose files were not to be rewritten, or could not be."""

    copies: int | None = None
    """The rows that rewrites may copy: all of the table at first, and then more with each batch."""

    files_before: int | None = None
    """The table's data files at the last look that found none to merge."""

    def between_batches(self, clients: Clients, view: TableView) -> bool:
        """Rewrite files if it pays, and if the table's head is still that of the view; return whether any were."""
        try:
            head = view.head_snapshot()
            if head is not None and head.id != self.looked_at:
                return self._rewrite(clients, view, self._due(clients, view, head)) is not None
        except CommitError as refused:
            LOG.info("rewrite_overtaken", extra={"table": view.identifier, "problem": str(refused)})
        except FrazilError as failed:
            LOG.warning("rewrite_failed", extra={"table": view.identifier, "problem": str(failed)})
        except Exception:
            LOG.exception("rewrite_failed", extra={"table": view.identifier})
        return False

    def asked(self, clients: Clients, view: TableView) -> Rewrote | None:
        """Rewrite what pays at all, however little, as far as one rewrite goes. Raises FrazilError."""
        return self._rewrite(clients, view, self.paying(clients, view))

    def paying(self, clients: Clients, view: TableView, *, pass_bytes: int = PASS_BYTES) -> Chosen:
        """Return the files that `asked` rewrites, at once or, of a table with all records, with more bytes later.

        Raises CatalogError.
        """
        head = view.head_snapshot()
        if head is None:
            return NOTHING_CHOSEN
        rows, files = head.figure("total-records"), clients.lake.stored_files(view)
        if self.spec.write == "append":
            full, bound = self._full_bytes, pass_bytes
            return Chosen.of(to_merge(files, LAST_SHARE, full=full, copies=rows, hot=(), pass_bytes=bound, worth=1))
        return self._emptied(files, LAST_SHARE, copies=rows)

    def _due(self, clients: Clients, view: TableView, head: Snapshot) -> Chosen:
        """Return what to rewrite after a batch."""
        share = self.spec.maintain.rewrite_deleted
        is_append = self.spec.write == "append"
        if is_append and added_rows(head) * 2 > self.spec.batch_rows:
            return NOTHING_CHOSEN  # the next batch is waiting
        self.looked_at = head.id
        copies = self._allowed_after(head)
        if not is_append:
            if not may_be_due(head, share):
                return NOTHING_CHOSEN
            return self._emptied(clients.lake.stored_files(view), share, copies=copies)
        if not is_time_to_look(head, share, files_before=self.files_before):
            return NOTHING_CHOSEN
        files, hot = clients.lake.stored_files(view), _partitions_with_new_files(clients, view)
        chosen = Chosen.of(to_merge(files, share, full=self._full_bytes, copies=copies, hot=hot))
        self.files_before = None if chosen.files else head.figure("total-data-files")
        return chosen

    def _emptied(self, files: Sequence[StoredFile], share: float, *, copies: int) -> Chosen:
        found = to_rewrite(files, share, full=self._full_bytes, copies=copies)
        return Chosen(found, int(ScanCost.of(found, self._full_bytes).wasted)) if found else NOTHING_CHOSEN

    def _rewrite(self, clients: Clients, view: TableView, chosen: Chosen) -> Rewrote | None:
        files = chosen.files
        if not files:
            return None
        began = elapsed_seconds()
        written = self._written(clients, view, chosen)
        left = sum(file.rows for file in written)
        self.copies = None if self.copies is None else self.copies - left
        dropped = [DroppedFile(each.path, tuple(own.path for own in each.own_deletes)) for each in files]
        figures = {
            "added-records": left,
            "deleted-records": sum(each.rows for each in files),
            "removed-position-deletes": sum(each.deleted for each in files),
            "added-position-deletes": 0,
        }
        if is_old(began):
            raise CommitRejectedError(f"{view.identifier}: to rewrite files took more than a day; nothing was changed")
        summary = {REWRITTEN_BY: self.writer}
        clients.lake.rewrite(
            view, files=written, dropped=dropped, summary=summary, figures=figures, tag_prefix=REWRITE_PREFIX
        )
        deleted = sum(each.rows for each in files) - left
        seconds = round(elapsed_seconds() - began, 3)
        done = Rewrote(len(files), len(written), left, deleted, chosen.saved, seconds)
        LOG.info("files_rewritten", extra={"table": view.identifier, **_log_fields(done)})
        return done

    def _allowed_after(self, head: Snapshot) -> int:
        """Return the rows that a rewrite may copy after the batch of this head: never more than the table has."""
        rows = head.figure("total-records")
        self.copies = rows if self.copies is None else min(self.copies + COPIES * added_rows(head), rows)
        return self.copies

    @property
    def _full_bytes(self) -> int:
        return min(self.spec.maintain.target_file_bytes, PASS_BYTES)

    def _written(self, clients: Clients, view: TableView, chosen: Chosen) -> Sequence[WrittenFile]:
        """Return the new files. Raises CountMismatchError unless they have all rows that are not deleted."""
        clients.runner.start()
        files = chosen.files
        rows, z_order = sum(each.rows for each in files), _z_ordered(view, self.spec.maintain.z_order)
        tasks = [
            RewriteTask(
                target=write_target(view),
                files=share,
                prefix=f"{self.writer}-rewrite",
                target_bytes=self._full_bytes,
                storage=clients.lake.storage,
                z_order=z_order,
            )
            for share in chosen.shares(at_most=clients.runner.parallelism)
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


def _z_ordered(view: TableView, names: Sequence[str]) -> tuple[str, ...]:
    """Return the present names of columns, or none if the table lacks one: its rows then stay as they are."""
    known = former_names_of(view.properties)
    found = [column_at(name, view.columns, known) for name in names]
    if None in found:
        LOG.warning("z_order_without_column", extra={"table": view.identifier, "columns": list(names)})
        return ()
    return tuple(each[0] for each in found if each is not None)


def _partitions_with_new_files(clients: Clients, view: TableView) -> set[object]:
    """Return the partitions to which the last batches added files."""
    snapshots = islice((each for each in view.ancestry(view.head) if each.operation != "replace"), HOT_BATCHES)
    added = (file for snapshot in snapshots for file in clients.lake.added_files(view, snapshot.id))
    return {(file.spec_id, *file.partition) for file in added}


def _log_fields(done: Rewrote) -> dict[str, object]:
    return {
        "files": done.files,
        "into": done.into,
        "deleted_rows": done.deleted_rows,
        "copied_rows": done.copied_rows,
        "seconds": done.seconds,
        "rows_saved_by_a_scan": done.saved,
        "pays_after_scans": pays_after(done.copied_rows, done.saved),
    }


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
