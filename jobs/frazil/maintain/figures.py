"""The figures that show whether a table needs maintenance, and how many rows reach it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.model.errors import CatalogError
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.summary import FORGOTTEN
from frazil.model.transforms import records_batch

SMALL_PART = 8
"""A file is small if it has less than this part of `maintain.target_file`."""

MOST_FILES = 2_000
"""Data files whose sizes are looked at. Of a table with more, those that were added last."""

RECENTLY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a table's head, by the summary of its snapshot.

    `small` of the `examined` newest data files are below `small_bytes`. `examined` is 0 if their sizes are unknown.
    """

    data: int
    deletes: int
    bytes: int
    deleted_rows: int
    small: int
    examined: int
    small_bytes: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """The rows that were added in the last `seconds`: an hour, or less if the table's snapshots begin later."""

    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def files_of(view: TableView, *, target_bytes: int) -> Files | None:
    """Return the figures of the head; None if the table has no snapshot."""
    head, small_bytes = view.head_snapshot(), target_bytes // SMALL_PART
    if head is None:
        return None
    sizes = sizes_of(head)
    return Files(
        data=head.figure("total-data-files"),
        deletes=head.figure("total-delete-files"),
        bytes=head.figure("total-files-size"),
        deleted_rows=head.figure("total-position-deletes"),
        small=sum(size < small_bytes for size in sizes),
        examined=len(sizes),
        small_bytes=small_bytes,
    )


def sizes_of(head: Snapshot) -> tuple[int, ...]:
    """Return the sizes of the newest data files, or none if storage does not give them."""
    try:
        return tuple(head.newest_file_sizes(MOST_FILES))
    except CatalogError:
        return ()


def throughput_of(view: TableView, *, now: datetime) -> Throughput | None:
    """Return the throughput of the last hour; None if the table has no snapshot."""
    since, rows = now - RECENTLY, 0
    begun: datetime | None = None
    for snapshot in view.ancestry(view.head):
        begun = snapshot.committed_at
        if begun <= since:
            break
        rows += added_rows(snapshot)
    if begun is None:
        return None
    return Throughput(rows, (now - max(begun, since)).total_seconds())


def added_rows(snapshot: Snapshot) -> int:
    """Return the rows that a batch of Frazil added; 0 for a rewrite of files and for commits of others."""
    return snapshot.figure("added-records") if records_batch(snapshot) and not forgets(snapshot) else 0


def forgets(snapshot: Snapshot) -> bool:
    """Return whether a commit only took rows out: an erasure adds those that were in the same files again."""
    return FORGOTTEN in snapshot.summary
