"""Rows that a batch takes out of data files, as few files of position deletes for readers to open.

A data file of which no row is left is dropped. One with few deleted rows, or with several files of deletes of its own,
gets one file of deletes instead of them: a reader opens at most `MERGED_FROM`, and only one where they are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from frazil.model.ingested import DeletedRows, Deletion, DroppedFile
from frazil.model.probe import FoundRows
from frazil.modes.wanted import Numbers, as_array, as_numbers, ascending_once


def deleted_rows(paths: Sequence[str], file: Numbers, position: Numbers) -> Iterator[DeletedRows]:
    """Yield the rows to take out of each file: `file` has numbers of `paths`, `position` a row for each."""
    order = np.lexsort((position, file))
    numbers, starts = np.unique(file[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for number, start, end in zip(numbers.tolist(), starts, ends, strict=False):
        yield DeletedRows(paths[number], as_array(position[order[start:end]]))


def deletions(found: Sequence[FoundRows], file: Numbers, position: Numbers) -> Iterator[Deletion]:
    """Yield what becomes of stored files that lose these rows: `file` has numbers of `found`."""
    by_path = {each.file.path: each for each in found}
    for new in deleted_rows([*by_path], file, position):
        here = by_path[new.path]
        own = tuple(each.path for each in here.file.own_deletes)
        if len(new.positions) == here.left:
            yield DroppedFile(new.path, own)
        elif here.file.is_crowded:
            positions = ascending_once([as_numbers(here.deleted), np.asarray(new.positions, np.int64)])
            yield DeletedRows(new.path, as_array(positions), instead_of=own)
        else:
            yield new


def figures_of(
    added_rows: int, found: Sequence[FoundRows], deletes: Sequence[Deletion], *, updated: int = 0
) -> Mapping[str, int]:
    """Return what the summary of a snapshot must say that adds so many rows and takes these rows out.

    `updated` rows are added in further files.
    """
    by_path = {each.file.path: each.file for each in found}
    rows = {each.path: each.rows for file in by_path.values() for each in file.deletes}
    dropped = [each for each in deletes if isinstance(each, DroppedFile)]
    of_rows = [each for each in deletes if isinstance(each, DeletedRows)]
    gone = [
        *(path for each in dropped for path in each.deletes),
        *(path for each in of_rows for path in each.instead_of),
    ]
    return {
        "added-records": added_rows + updated,
        "deleted-records": sum(by_path[each.path].rows for each in dropped),
        "added-position-deletes": sum(len(each.positions) for each in of_rows),
        "removed-position-deletes": sum(rows[path] for path in gone),
    }
