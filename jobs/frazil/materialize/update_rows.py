"""Tasks write rows of a table, and of a batch's own files, anew with some columns changed (docs/decisions/0041)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from frazil.materialize.clients import Clients
from frazil.materialize.ingest.distribute import write_target
from frazil.model.errors import CountMismatchError
from frazil.model.ingested import WrittenFile
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.updates import RowUpdates, TakenColumns, UpdateTask
from frazil.modes.wanted import Numbers, as_array, as_numbers

ROWS_OF_A_TASK = 50_000
"""Rows that one task writes faster than several could be started."""


def update_rows(
    clients: Clients, spec: TableSpec, prefix: str, view: TableView, updates: RowUpdates
) -> Sequence[WrittenFile]:
    """Return files of the rows as they are to be, in the schema and the partitioning of the view.

    Nothing refers to them yet. Raises TaskFailedError, CatalogError, and CountMismatchError unless each row is written
    once.
    """
    if not len(updates):
        return ()
    clients.runner.start()
    count = 1 if len(updates) <= ROWS_OF_A_TASK else clients.runner.parallelism
    tasks = [
        UpdateTask(
            target=write_target(view),
            updates=share,
            prefix=prefix,
            target_bytes=spec.maintain.target_file_bytes,
            storage=clients.lake.storage,
        )
        for share in shares(updates, count)
    ]
    name = f"{view.identifier} update of {plural(len(updates), 'row')}"
    files = clients.runner.update(tasks, name=name)
    written = sum(file.rows for file in files)
    if written != len(updates):
        raise CountMismatchError(
            f"{view.identifier}: {plural(len(updates), 'row')} to write anew, {written} written; nothing was published",
            hint="this is a defect in Frazil: report it with the log; the next run starts from the same offsets",
        )
    return files


def shares(updates: RowUpdates, count: int) -> list[RowUpdates]:
    """Divide rows so that few files are read for two shares: by the file that is read for them, then by position.

    A row that takes columns from others belongs to the last of these: stored files are the larger ones.
    """
    file, position = as_numbers(updates.file).copy(), as_numbers(updates.position).copy()
    for taken in updates.taken:
        file[as_numbers(taken.row)], position[as_numbers(taken.row)] = map(as_numbers, (taken.file, taken.position))
    return [_share(updates, rows) for rows in np.array_split(np.lexsort((position, file)), count) if len(rows)]


def _share(updates: RowUpdates, rows: Numbers) -> RowUpdates:
    number_in_share = np.full(len(updates), -1, np.int64)
    number_in_share[rows] = np.arange(len(rows))
    taken = (_taken_share(each, number_in_share) for each in updates.taken)
    return RowUpdates(
        updates.paths,
        _chosen(updates.file, rows),
        _chosen(updates.position, rows),
        {name: _chosen(values, rows) for name, values in updates.set_to.items()},
        tuple(each for each in taken if len(each.row)),
    )


def _taken_share(taken: TakenColumns, number_in_share: Numbers) -> TakenColumns:
    numbers = number_in_share[as_numbers(taken.row)]
    here = np.flatnonzero(numbers >= 0)
    return TakenColumns(
        taken.columns, as_array(numbers[here]), _chosen(taken.file, here), _chosen(taken.position, here)
    )


def _chosen(values: array[int], rows: Numbers) -> array[int]:
    return as_array(as_numbers(values)[rows])
