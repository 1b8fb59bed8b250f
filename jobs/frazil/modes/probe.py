"""A search for stored rows by their identities: what tasks are given, and what they find (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.model.secret import SettingValue

POSITION, PLACE = "position", "place"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file of a snapshot. `deletes` are files of position deletes that may name its rows, by path and format."""

    path: str
    rows: int
    deletes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """Columns by their field ids: the halves of the identity, and by name those that are returned of found rows."""

    first: int
    second: int
    returned: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Files of one table, to be searched for distinct identities: the longs `first` and `second`, without nulls."""

    table: str
    location: str
    files: Sequence[StoredFile]
    columns: IdentityColumns
    first: pa.Int64Array
    second: pa.Int64Array
    storage: Mapping[str, SettingValue]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of a data file that have one of the identities, without those that are deleted.

    `rows` has the columns `POSITION` in the file, ascending, `PLACE` of the identity in the task, and those returned.
    """

    path: str
    rows: pa.RecordBatch
