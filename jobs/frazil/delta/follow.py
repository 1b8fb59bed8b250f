"""Choose which snapshots of a table get a version in its Delta log, and when the log cannot follow the head.

A log in reader version 1 cannot represent delete files. So the log of a table that has some follows its newest snapshot
without any, such as one that a compaction left.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from frazil.model.delta import DeltaLog
from frazil.model.snapshot import Snapshot, TableView

DELETES = "the table has delete files: the log waits for a snapshot without any, such as a compaction leaves"


def snapshots_to_log(view: TableView, log: DeltaLog | None) -> tuple[TableView, ...]:
    """Return the view as of each snapshot that gets a version, oldest first; the last one is the log's goal.

    The goal is the head, or the newest of its ancestors without delete files if the head has some. If the goal would
    be older than what the log represents, it is what the log represents.

    A compaction gets a version of its own, and so does the snapshot before it: only then can that version say that no
    row has changed, for readers that stream the changes. Empty if the table has no snapshot.
    """
    chain = list(view.ancestry(view.head))
    logged = _position(chain, log)
    since = chain if logged is None else chain[: logged + 1]
    goal = _goal(since)
    if goal is None:
        return ()
    stops = [] if logged is None else _around_compactions(since[goal:][::-1])
    return tuple(replace(view, head=snapshot.id) for snapshot in (*stops, since[goal]))


def _position(chain: list[Snapshot], log: DeltaLog | None) -> int | None:
    """Return where the log's snapshot is in the head's ancestry, newest first; None if it is not in it."""
    logged = None if log is None else log.snapshot_id
    return next((position for position, snapshot in enumerate(chain) if snapshot.id == logged), None)


def _goal(chain: list[Snapshot]) -> int | None:
    """Return the position of the newest snapshot without delete files; the head's if no other has none."""
    if not chain or not chain[0].figure("total-delete-files"):
        return 0 if chain else None
    return next((position for position, snapshot in enumerate(chain) if snapshot.has_no_deletes), 0)


def _around_compactions(chain: list[Snapshot]) -> list[Snapshot]:
    """Return the snapshots before and at the end of each run of compactions, oldest first, without first and last."""
    stops = [
        before
        for before, after in pairwise(chain)
        if (before.operation == "replace") != (after.operation == "replace") and before.has_no_deletes
    ]
    return [each for each in stops if each.id != chain[0].id]
