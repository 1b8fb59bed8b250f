"""Rows of data files that are to be written anew with some of their columns changed (docs/decisions/0041)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.model.ingested import WriteTarget
from frazil.model.secret import SettingValue

NULL = -(2**63)
"""A null among the values of `set_to`."""


@dataclass(frozen=True, slots=True)
class TakenColumns:
    """Columns that some rows take from other rows, by column: `row` is the number of a row in `RowUpdates`.

    The other row is at `position` of the data file with the number `file`. A row is named once.
    """

    columns: tuple[str, ...]
    row: array[int]
    file: array[int]
    position: array[int]


@dataclass(frozen=True, slots=True)
class RowUpdates:
    """Rows to be written anew, by column: the number of their data file in `paths`, and their position in it.

    `set_to` has a value for each row, for columns that are whole numbers, booleans, dates or times: as Iceberg stores
    them, a boolean as 0 or 1, and a null as `NULL`. `taken` comes first, `set_to` last; other columns keep their
    values. The files may be in the table or of the batch, and have any schema that the table had. Position deletes do
    not matter here.
    """

    paths: tuple[str, ...]
    file: array[int]
    position: array[int]
    set_to: Mapping[str, array[int]] = field(default_factory=dict)
    taken: tuple[TakenColumns, ...] = ()

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """Rows that one task writes anew, in files of about `target_bytes` whose names begin with `prefix`."""

    target: WriteTarget
    updates: RowUpdates
    prefix: str
    target_bytes: int
    storage: Mapping[str, SettingValue]
