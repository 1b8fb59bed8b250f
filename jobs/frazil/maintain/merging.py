"""Decide which small files of a table with all records are merged: pure functions (docs/decisions/0058).

Costs are in rows that a scan could read in the same time, as in `rewriting.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from frazil.maintain.rewriting import FILE_ROWS, NEVER, PASS_BYTES, WORTH_A_SNAPSHOT
from frazil.model.probe import StoredFile
from frazil.model.snapshot import Snapshot

LAST_SHARE = 0.02
"""The least waste that a merge removes for each row that it copies, if these rows will not be copied again soon."""

FEWEST_FILES = 8
"""The files of a merge whose rows will be copied again soon, at least."""

COPIED_ROW = 25
"""Rows of which a scan could read four columns in the time in which one with 20 columns is copied."""

FULL_ENOUGH = 0.75
"""A file with this part of the target's bytes is left alone."""

LOOK_AFTER = 10
"""New files since the last look at all files, at least; in a large table, a hundredth of its files."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one partition that become one. `is_cold`: the partition got no file lately."""

    files: tuple[StoredFile, ...]
    is_cold: bool

    @property
    def rows(self) -> int:
        return sum(each.left for each in self.files)

    @property
    def saved(self) -> int:
        """The rows that a scan of the partition could read in the time that it spends on the files that go."""
        return FILE_ROWS * (len(self.files) - 1)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


def pays_after(copied_rows: int, saved_rows: int) -> int:
    """Return after how many scans a rewrite has saved as much time as it took."""
    return -(-COPIED_ROW * copied_rows // saved_rows) if saved_rows else 0


def is_time_to_look(head: Snapshot, share: float, *, files_before: int | None) -> bool:
    """Return whether files may have to be merged, by the summary of the head and the files at the last look."""
    files = head.figure("total-data-files")
    if share >= NEVER or files * FILE_ROWS <= WORTH_A_SNAPSHOT:
        return False
    return files_before is None or files - files_before >= max(LOOK_AFTER, files // 100)


def to_merge(
    files: Sequence[StoredFile],
    share: float,
    *,
    full: int,
    copies: int,
    hot: Collection[object],
    pass_bytes: int = PASS_BYTES,
    worth: int = WORTH_A_SNAPSHOT,
) -> list[Merge]:
    """Return what to merge now, into files of at most `full` bytes: at most `pass_bytes`, or one merge.

    `hot` are partitions that get files. A merge there must remove the `share` of waste, unless its file is full
    enough to be left alone: then `LAST_SHARE`, as in other partitions. Cold partitions are first, then the merges that
    save most for each copied row. At most `copies` rows are copied, and nothing is merged that saves less than `worth`
    rows altogether.
    """
    partitions: defaultdict[object, list[StoredFile]] = defaultdict(list)
    for each in files:
        if each.size < FULL_ENOUGH * full:
            partitions[each.partition].append(each)
    possible = [
        merge
        for partition, small in partitions.items()
        for merge in _merges(small, share, full, is_cold=partition not in hot)
    ]
    chosen: list[Merge] = []
    rows = size = 0
    for merge in sorted(possible, key=lambda each: (not each.is_cold, each.rows / each.saved, each.files[0].path)):
        rows, size = rows + merge.rows, size + merge.size
        if rows > copies or (chosen and size > pass_bytes):
            break
        chosen.append(merge)
    return chosen if sum(each.saved for each in chosen) >= worth else []


def _merges(files: Sequence[StoredFile], share: float, full: int, *, is_cold: bool) -> Iterator[Merge]:
    """Yield the merges of a partition's small files that pay, the smallest files first.

    In a partition that gets files, no file is merged with others that have fewer bytes altogether: each copy of a row
    then at least doubles the bytes of its file, so that rows are copied a few times at most.
    """
    for alike in _alike(files, full, is_cold=is_cold):
        is_last = is_cold or sum(each.size for each in alike) >= FULL_ENOUGH * full
        paying = _paying(alike, min(share, LAST_SHARE) if is_last else share)
        if len(paying) > 1 and (is_last or len(paying) >= FEWEST_FILES):
            yield Merge(paying, is_cold)


def _alike(files: Sequence[StoredFile], full: int, *, is_cold: bool) -> Iterator[list[StoredFile]]:
    """Divide files by their size, into parts that fit into one file."""
    part: list[StoredFile] = []
    size = 0
    for each in sorted(files, key=lambda each: (each.size, each.path)):
        if part and (size + each.size > full or (not is_cold and len(part) > 1 and each.size > size)):
            yield part
            part, size = [], 0
        part.append(each)
        size += each.size
    yield part


def _paying(files: Sequence[StoredFile], share: float) -> tuple[StoredFile, ...]:
    """Return as many of these files, in ascending order of size, as pay to merge."""
    rows, most = 0, 0
    for count, each in enumerate(files, start=1):
        rows += each.left
        if FILE_ROWS * (count - 1) >= share * rows:
            most = count
    return tuple(files[:most])
