"""A rebuild from an earlier `start` reads the records from before the table's first one, and then those of the table.

A tag keeps the snapshot between them, whose state says how many earlier records there are. So the number of records
that the table was made of is compared with those of the same offsets.
"""

from __future__ import annotations

from frazil.materialize.rebuild.rebuilt_state import progress_of
from frazil.materialize.rebuild.topics import Offsets
from frazil.materialize.state import Standing
from frazil.model.progress import TableState
from frazil.model.summary import state_in
from frazil.ports import Lake

EARLIER_TAG = "frazil_earlier"
"""The snapshot of what is built that has all records from before the table's first one, and no others."""


def ends_of_earlier(here: Standing, built: Standing) -> Offsets:
    """Return the offsets up to which what is built reads the earlier records; empty if there are none left to read."""
    had = {(source.topic, n): p.origin for source in here.state.sources for n, p in source.partitions.items()}
    now = {(topic, n): progress_of(built.state, topic, n) for topic, n in had}
    if EARLIER_TAG in built.view.tags or all(now[place].origin >= origin for place, origin in had.items()):
        return {}
    return {
        source.topic: {n: max(p.origin, now[source.topic, n].next) for n, p in source.partitions.items()}
        for source in here.state.sources
    }


def tag_earlier(lake: Lake, built: Standing) -> None:
    """Let what was built up to now be the earlier records. Raises CommitError."""
    head = built.view.head
    assert head is not None  # noqa: S101 - a table that was created has a snapshot
    lake.move_tags(built.view, put={EARLIER_TAG: head})


def earlier_of(built: Standing) -> TableState | None:
    """Return the state of what was built when it had the earlier records only; None if it began where the table did."""
    snapshot = built.view.snapshots.get(built.view.tags.get(EARLIER_TAG, -1))
    return None if snapshot is None else state_in(snapshot)
