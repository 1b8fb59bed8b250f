"""A truncate takes out all rows that a table had before it (docs/decisions/0040)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.model.ingested import DroppedFile
from frazil.model.probe import FoundRows, StoredFile
from frazil.model.progress import OffsetSums


@dataclass(frozen=True, slots=True)
class OutOfTable:
    """Rows of one partition that are not in a table: how many, and the sums of their offsets."""

    rows: int = 0
    sums: OffsetSums = field(default_factory=OffsetSums)

    def __add__(self, other: OutOfTable) -> OutOfTable:
        return OutOfTable(self.rows + other.rows, self.sums + other.sums)


@dataclass(frozen=True, slots=True)
class Truncation:
    """The truncates of a batch: their `offsets` in the only partition, ascending, and the stored `files` and `rows`."""

    offsets: Sequence[int]
    files: Sequence[StoredFile]
    rows: Mapping[int, OutOfTable]

    @property
    def last(self) -> int:
        return self.offsets[-1]

    def dropped(self) -> Iterator[DroppedFile]:
        for file in self.files:
            yield DroppedFile(file.path, tuple(each.path for each in file.own_deletes))

    def found(self) -> list[FoundRows]:
        """Return the files as those in which no row is left."""
        nothing = array("q")
        return [FoundRows(file, 0, nothing, nothing, nothing, nothing, nothing) for file in self.files]
