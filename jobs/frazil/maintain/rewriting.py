"""Decide which data files are written again: pure functions of a table's files (docs/decisions/0042).

Waste is what a scan of a compacted table would not read, in rows: a deleted row is `DELETED_ROWS`, each file too many
`FILE_ROWS`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.model.probe import StoredFile
from frazil.model.snapshot import Snapshot

FILE_ROWS = 10_000
"""Rows that a scan could read in the time in which it opens a data file and its file of deletes."""

DELETED_ROWS = 2
"""Rows that a scan could read in the time in which it reads a row, looks it up among those deleted, and drops it."""

PASS_BYTES = 128 << 20
"""What is left of the files of one rewrite, at most, or one file: a batch waits for it. No larger file is written."""

DONE_AT = 0.8
"""The part of the share at which a rewrite has done enough: with less, it copies more rows for the same mean waste."""

WORTH_A_SNAPSHOT = 10 * FILE_ROWS
"""Less waste is not removed: to read so many rows takes about as long as a rewrite's commit."""

COPIES = 8
"""Rows that are copied for each row that batches add, at most. Tables of usual layouts need 4 to 7."""

NEVER = 1.0
"""The share that switches rewriting off."""


@dataclass(frozen=True, slots=True)
class ScanCost:
    """What a scan of a table costs, in rows: what it would cost after a compaction, and what comes on top."""

    needed: float
    wasted: float

    @classmethod
    def of(cls, files: Sequence[StoredFile], full: int) -> ScanCost:
        """Return the cost of files, of which those of a partition could be merged until they have `full` bytes."""
        left: defaultdict[object, float] = defaultdict(float)
        for each in files:
            left[each.partition] += _bytes_left(each)
        fewest = min(sum(max(1, math.ceil(size / full)) for size in left.values()), len(files))
        rows, deleted = sum(each.left for each in files), sum(each.deleted for each in files)
        return cls(rows + FILE_ROWS * fewest, _wasted(deleted, files=len(files) - fewest))

    def exceeds(self, share: float) -> bool:
        return self.wasted >= max(share * self.needed, WORTH_A_SNAPSHOT)


def may_be_due(head: Snapshot, share: float) -> bool:
    """Return whether the table may waste enough, by the summary of its head."""
    deleted, files = head.figure("total-position-deletes"), head.figure("total-data-files")
    rows = max(head.figure("total-records") - deleted, 0)
    return share < NEVER and ScanCost(rows, _wasted(deleted, files=max(files - 1, 0))).exceeds(share)


def to_rewrite(files: Sequence[StoredFile], share: float, *, full: int, copies: int) -> list[StoredFile]:
    """Return the files to rewrite now, into files of `full` bytes; none if a scan wastes less than `share`.

    At most `copies` rows are copied. Files of which few rows are copied for what they waste are first. A file that is
    too large to be rewritten with others is rewritten alone, once it wastes more than the files before it.
    """
    cost = ScanCost.of(files, full)
    if not cost.exceeds(share):
        return []
    excess = to_remove = cost.wasted - DONE_AT * share * cost.needed
    chosen: list[StoredFile] = []
    in_partition: Counter[object] = Counter()
    rows, size = 0, 0.0
    for each in sorted(files, key=lambda each: (-_waste(each, full) / max(each.left, 1), each.path)):
        rows += each.left
        size += _bytes_left(each)
        if excess <= 0 or rows > copies:
            break
        if chosen and size > PASS_BYTES:
            if _bytes_left(each) > PASS_BYTES and DELETED_ROWS * each.deleted > to_remove - excess:
                return [each]
            break
        chosen.append(each)
        in_partition[each.partition] += 1
        excess -= DELETED_ROWS * each.deleted if in_partition[each.partition] == 1 else _waste(each, full)
    return [each for each in chosen if each.deleted or in_partition[each.partition] > 1]


def _waste(file: StoredFile, full: int) -> float:
    """Return what a scan is spared if the file is merged with others."""
    return _wasted(file.deleted, files=max(0.0, 1 - _bytes_left(file) / full))


def _wasted(deleted: int, *, files: float) -> float:
    return DELETED_ROWS * deleted + FILE_ROWS * files


def _bytes_left(file: StoredFile) -> float:
    return file.size * file.left / file.rows if file.rows else 0.0
