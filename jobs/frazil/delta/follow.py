"""Choose which snapshots of a table get a version in its Delta log, and when the log cannot follow the head.

A log in reader version 1 cannot represent that delete files remove rows. So the log of a table with such files follows
its newest snapshot in which they remove none, such as one that a compaction left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from frazil.model.delta import DeltaLog
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.summary import REPLACES

DELETES = "rows are removed by delete files: the log waits for a snapshot without any, such as a compaction leaves"


def snapshots_to_log(view: TableView, log: DeltaLog | None) -> tuple[TableView, ...]:
    """Return the view as of each snapshot that gets a version if the log can represent it, oldest first.

    The last one is the head. If it has delete files, older ones come before it: the newest compaction, which may have
    left delete files that remove nothing any more, and the newest snapshot without any. None is older than what the log
    represents. Only a look at their files tells whether the log can represent them.

    Those that a rebuild or a rewind was made of are left out: readers of the table have never seen them.

    A compaction gets a version of its own, and so does the snapshot before it: only then can that version say that no
    row has changed, for readers that stream the changes. Empty if the table has no snapshot.
    """
    chain = list(_seen_by_readers(view))
    logged = _position(chain, log)
    since = chain if logged is None else chain[: logged + 1]
    goals = _goals(since)
    stops = [] if logged is None or not goals else _around_compactions(since[goals[0] :][::-1])
    return tuple(replace(view, head=snapshot.id) for snapshot in (*stops, *(since[goal] for goal in goals)))


def _seen_by_readers(view: TableView) -> Iterator[Snapshot]:
    """Yield the head and its ancestors, newest first, down to the one with which a rebuild replaced the table."""
    for snapshot in view.ancestry(view.head):
        yield snapshot
        if REPLACES in snapshot.summary:
            return


def _position(chain: list[Snapshot], log: DeltaLog | None) -> int | None:
    """Return where the log's snapshot is in the chain; None if it is not in it."""
    logged = None if log is None else log.snapshot_id
    return next((position for position, snapshot in enumerate(chain) if snapshot.id == logged), None)


def _goals(chain: list[Snapshot]) -> list[int]:
    """Return the positions of the snapshots that the log may come to represent, oldest first; the head's is 0."""
    if not chain or not chain[0].figure("total-delete-files"):
        return [0] if chain else []
    without = next((position for position, snapshot in enumerate(chain) if snapshot.has_no_deletes), len(chain))
    compacted = next((position for position, snapshot in enumerate(chain) if snapshot.operation == "replace"), without)
    return [each for each in sorted({0, without, min(compacted, without)}, reverse=True) if each < len(chain)]


def _around_compactions(chain: list[Snapshot]) -> list[Snapshot]:
    """Return the snapshots before and at the end of each run of compactions, oldest first, without first and last."""
    stops = [
        before
        for before, after in pairwise(chain)
        if (before.operation == "replace") != (after.operation == "replace") and before.has_no_deletes
    ]
    return [each for each in stops if each.id != chain[0].id]
