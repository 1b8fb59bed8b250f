"""A search for stored rows by their identities: what tasks are given, and what they find (docs/decisions/0036)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.model.secret import SettingValue


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file of a snapshot. `deletes` are files of position deletes that may name its rows, by path and format."""

    path: str
    rows: int
    deletes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """Columns by their field ids: the halves of the identity, and where a row came from."""

    first: int
    second: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Files of one table, to be searched for distinct identities, whose halves are `first` and `second`."""

    table: str
    location: str
    files: Sequence[StoredFile]
    columns: IdentityColumns
    first: array[int]
    second: array[int]
    storage: Mapping[str, SettingValue]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of a data file that have one of the identities, without those that are deleted.

    By column: the `position` in the file, ascending, the `place` of the identity in the task, and the partition and
    offset of the row's record. Rows without these are left out: they are another writer's.
    """

    path: str
    position: array[int]
    place: array[int]
    partition: array[int]
    offset: array[int]
