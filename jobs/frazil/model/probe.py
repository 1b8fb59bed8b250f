"""A search for stored rows by their identities: what tasks are given, and what they find (docs/decisions/0036)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.secret import SettingValue

MERGED_FROM = 5
"""A data file with so many files of deletes of its own gets one instead, with the next delete."""

FEW_DELETED = 16_384
"""A data file with fewer deleted rows has one file of deletes: to open a second one costs more than to merge them."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of position deletes, with its rows. `is_own`: it names rows of one data file only."""

    path: str
    format: str
    rows: int
    is_own: bool


Within = Mapping[str, tuple[int, int]]
"""The least and the greatest values of columns. Times are in microseconds, dates in days. A null is within."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file of a snapshot with its size in bytes, and the files of position deletes that may name its rows.

    Files with the same `partition` have the same partition spec, by its id, and the same values of its fields.
    """

    path: str
    rows: int
    deletes: tuple[DeleteFile, ...] = ()
    size: int = 0
    partition: tuple[object, ...] = ()

    @property
    def own_deletes(self) -> tuple[DeleteFile, ...]:
        return tuple(each for each in self.deletes if each.is_own)

    @property
    def deleted(self) -> int:
        """The rows that its own files of deletes name."""
        return sum(each.rows for each in self.own_deletes)

    @property
    def left(self) -> int:
        """The rows that they do not name."""
        return max(self.rows - self.deleted, 0)

    @property
    def is_crowded(self) -> bool:
        """Return whether its own files of deletes should become one."""
        count = len(self.own_deletes)
        return count >= MERGED_FROM or (count > 0 and self.deleted < FEW_DELETED)


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """Columns by their field ids: the halves of the identity, where a row came from, and what orders it before that.

    `end` is a column whose null is the greatest value: the end of an interval. It follows the order. `topic` is given
    where `numbers` has several topics.
    """

    first: int
    second: int
    partition: int
    offset: int
    order: tuple[int, ...] = ()
    end: int | None = None
    topic: int | None = None
    numbers: PartitionNumbers = field(default_factory=PartitionNumbers)

    @property
    def read(self) -> frozenset[int]:
        """All columns, as far as a file has them."""
        return frozenset({self.first, self.second, *self.found, *(() if self.topic is None else (self.topic,))})

    @property
    def needed(self) -> frozenset[int]:
        """The columns that each file with rows of records has. A row that lacks only its order is the oldest."""
        order = () if self.end is None else (*self.order, self.end)
        return frozenset({self.first, self.second, self.partition, self.offset, *order})

    @property
    def found(self) -> tuple[int, ...]:
        """The columns of which found rows have values."""
        return self.partition, self.offset, *self.order, *(() if self.end is None else (self.end,))


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

    `left` is the number of all its rows that are not deleted. `deleted` are the positions in its own files of deletes,
    if it is crowded. By column: the `position` in the file, ascending, the `place` of the identity in the task, and the
    number of the partition and the offset of the row's record, and the `order` before these, most significant first.
    Rows without a partition and an offset are left out: they are another writer's.
    """

    file: StoredFile
    left: int
    deleted: array[int]
    position: array[int]
    place: array[int]
    partition: array[int]
    offset: array[int]
    order: tuple[array[int], ...] = ()
