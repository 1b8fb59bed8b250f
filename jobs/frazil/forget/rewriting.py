"""Write data files anew without some of their rows: the bytes of these rows go with the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.reachable import plain
from frazil.adapters.iceberg.rewrite_files import SORTED_BYTES
from frazil.adapters.iceberg.scan import live_files
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.ports import Lake

ErasedIn = Callable[[StoredFile], Positions]
"""Returns the positions of the rows of a file that are to be erased, ascending; deleted ones may be among them."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that take the place of those `dropped`, data files with `rows` and files of deletes.

    `erased` are the rows that are left out, with only the columns that were asked for.
    """

    files: tuple[WrittenFile, ...] = ()
    dropped: tuple[str, ...] = ()
    rows: int = 0
    erased: tuple[pa.RecordBatch, ...] = ()

    @property
    def left(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def figures(self) -> dict[str, int]:
        """The figures that the summary of the snapshot must have."""
        return {"added-records": self.left, "deleted-records": self.rows}


@dataclass(frozen=True, slots=True)
class Affected:
    """Data files that are to be written anew, and files of position deletes that no other data file needs then."""

    files: Sequence[StoredFile] = ()
    deletes: tuple[str, ...] = ()


def affected_by(lake: Lake, view: TableView, addresses: Collection[str]) -> Affected:
    """Return the files of the table's head at these addresses, and what is to be removed with them.

    If there is a file of position deletes at one, such as one with the deleted rows, the data files that need it are
    affected: written anew without these rows, they need it no longer. Raises CatalogError.
    """
    if not addresses:
        return Affected()
    stored, head = lake.stored_files(view), view.head
    assert head is not None  # noqa: S101 - it has traces
    files = [each for each in stored if any(plain(path) in addresses for path in _paths_of(each))]
    chosen = {each.path for each in files}
    needed = {deletes.path for each in stored if each.path not in chosen for deletes in each.deletes}
    deletes = {each.path for each in live_files(view, head).position_deletes}
    return Affected(files, tuple(sorted(deletes - needed)))


def _paths_of(file: StoredFile) -> tuple[str, ...]:
    return file.path, *(each.path for each in file.deletes)


def rewrite_without(
    lake: Lake,
    view: TableView,
    affected: Affected,
    erased_in: ErasedIn,
    *,
    columns: Sequence[str],
    prefix: str,
    target_bytes: int,
) -> Rewritten:
    """Write the rows of these files that stay to new files, which are in no snapshot yet.

    `columns` are those to keep of the erased rows. Rows that are deleted already are left out, too. Raises CatalogError
    if a file cannot be read, and CountMismatchError.
    """
    target = write_target(view)
    written = DataFileWriter(
        target, storage=lake.storage, prefix=prefix, target_bytes=target_bytes, sorted_bytes=SORTED_BYTES
    )
    source, erased, deleted = WholeRows.of(target, lake.storage), [], 0
    for file in affected.files:
        positions = source.deleted_in(file)
        deleted += len(positions)
        gone = np.setdiff1d(erased_in(file), positions)
        erased += [rows.select(list(columns)) for rows in source.read_only(file.path, gone)]
        for rows in source.read_without(file.path, np.union1d(positions, gone)):
            written.add(rows)
    dropped = (*(each.path for each in affected.files), *affected.deletes)
    done = Rewritten(written.close(), dropped, sum(each.rows for each in affected.files), tuple(erased))
    _check(view, done, deleted)
    return done


def _check(view: TableView, done: Rewritten, deleted: int) -> None:
    taken = sum(each.num_rows for each in done.erased)
    if done.rows != done.left + taken + deleted:
        raise CountMismatchError(
            f"{view.identifier}: {len(done.dropped)} files with {done.rows:,} rows, of which {deleted:,} are deleted"
            f" and {taken:,} to be erased, became files with {done.left:,} rows; nothing was erased",
            hint="this is a defect in Frazil: report it with the log; the table is intact",
        )


def check_staged(lake: Lake, table: str, snapshot_id: int, figures: Mapping[str, int]) -> None:
    """Raise CountMismatchError unless a staged snapshot's summary has these figures."""
    view = lake.load(table)
    snapshot = None if view is None else view.snapshots.get(snapshot_id)
    found = {} if snapshot is None else {name: snapshot.figure(name) for name in figures}
    if found != figures:
        raise CountMismatchError(
            f"{table}: staged with {found}, expected {dict(figures)}; nothing was erased",
            hint="this is a defect in Frazil: report it with the log; the table is intact",
        )
