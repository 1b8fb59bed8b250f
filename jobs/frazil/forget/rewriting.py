"""Write data files anew without some of their rows: the bytes of these rows go with the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.reachable import plain
from frazil.adapters.iceberg.rewrite_files import SORTED_BYTES
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import DroppedFile, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.ports import Lake

IsErased = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Says of each row of a batch, which has all columns of the table, whether it is to be erased. Null is no."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that take the place of `dropped` ones, which had `rows`. `erased` are the rows that are left out.

    Of the erased rows, there are only the columns that were asked for.
    """

    files: tuple[WrittenFile, ...] = ()
    dropped: tuple[DroppedFile, ...] = ()
    rows: int = 0
    erased: tuple[pa.RecordBatch, ...] = ()

    @property
    def left(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def figures(self) -> dict[str, int]:
        """The figures that the summary of the snapshot must have."""
        return {"added-records": self.left, "deleted-records": self.rows}


def files_at(lake: Lake, view: TableView, addresses: Collection[str]) -> list[StoredFile]:
    """Return the data files of the table's head at these addresses. Raises CatalogError.

    A file of position deletes that names rows of other data files too stays: it names none of the new ones.
    """
    return [each for each in lake.stored_files(view) if plain(each.path) in addresses]


def rewrite_without(
    lake: Lake,
    view: TableView,
    files: Sequence[StoredFile],
    is_erased: IsErased,
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
    for file in files:
        positions = source.deleted_in(file)
        deleted += len(positions)
        for rows in source.read_without(file.path, positions):
            gone = pc.fill_null(is_erased(rows), False)
            erased.append(rows.filter(gone).select(list(columns)))
            written.add(rows.filter(pc.invert(gone)))
    dropped = tuple(DroppedFile(each.path, tuple(own.path for own in each.own_deletes)) for each in files)
    done = Rewritten(written.close(), dropped, sum(each.rows for each in files), tuple(erased))
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
