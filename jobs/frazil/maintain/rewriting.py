"""Decide which data files are written again without their deleted rows: pure functions of a table's files."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.model.probe import StoredFile
from frazil.model.snapshot import Snapshot

PASS_BYTES = 128 << 20
"""What is left of the files of one rewrite, at most, or one file: a batch waits for it."""

WORTH_A_SNAPSHOT = 0.05
"""The deleted rows of the files to rewrite, as a share of the table's rows, from which a rewrite is made."""

FEW_ROWS, MANY_FILES = 10_000, 10
"""Fewer deleted rows slow no reader down, unless they are in so many files, which a rewrite also makes fewer."""


def may_be_due(head: Snapshot, share: float) -> bool:
    """Return whether the table may have enough deleted rows, by the summary of its head."""
    deleted, rows = head.figure("total-position-deletes"), head.figure("total-records")
    return deleted >= min(share, WORTH_A_SNAPSHOT) * max(rows, 1)


def to_rewrite(files: Sequence[StoredFile], share: float) -> list[StoredFile]:
    """Return the files to rewrite now: of each, at least `share` of the rows are deleted. The emptiest are first.

    None if they have too few deleted rows to be worth a snapshot.
    """
    enough = (each for each in files if each.deleted and _share(each) >= share)
    emptiest = sorted(enough, key=lambda each: (-_share(each), each.path))
    deleted = sum(each.deleted for each in emptiest)
    if deleted < WORTH_A_SNAPSHOT * sum(each.rows for each in files):
        return []
    if deleted < FEW_ROWS and len(emptiest) < MANY_FILES:
        return []
    chosen: list[StoredFile] = []
    left = 0
    for each in emptiest:
        left += round(each.size * (1 - _share(each)))
        if chosen and left > PASS_BYTES:
            break
        chosen.append(each)
    return chosen


def _share(file: StoredFile) -> float:
    """Return the share of a file's rows that is deleted; 0 without a file of deletes of its own."""
    return min(file.deleted / file.rows, 1.0) if file.rows else 0.0
