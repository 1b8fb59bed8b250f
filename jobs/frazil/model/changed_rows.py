"""Rows of data files that two snapshots of a table do not both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.model.probe import StoredFile


@dataclass(frozen=True, slots=True)
class LostRows:
    """The rows that a data file has in one snapshot, `file`, and that another one, `later`, marks as deleted."""

    file: StoredFile
    later: StoredFile

    @property
    def rows(self) -> int:
        return max(self.later.deleted - self.file.deleted, 0)


RowsOfFile = StoredFile | LostRows
"""All live rows of a data file, or some."""


def changed(
    before: Sequence[StoredFile], now: Sequence[StoredFile]
) -> tuple[tuple[RowsOfFile, ...], tuple[RowsOfFile, ...]]:
    """Return the rows that only `now` has, and those that only `before` has. Rewritten files are in both."""
    return _beyond(now, before), _beyond(before, now)


def _beyond(here: Sequence[StoredFile], there: Sequence[StoredFile]) -> tuple[RowsOfFile, ...]:
    known = {file.path: file for file in there}
    found: list[RowsOfFile] = []
    for file in here:
        other = known.get(file.path)
        if other is None:
            found.append(file)
        elif {each.path for each in other.deletes} - {each.path for each in file.deletes}:
            found.append(LostRows(file, other))
    return tuple(found)
