"""Which snapshots expire: a pure function from one read of a table's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

from frazil.model.expiry import Expiry
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import KeepSnapshots
from frazil.model.summary import carries_state

DAILY_PREFIX = "frazil_daily_"
"""A tag of ours, followed by a day in UTC: the last snapshot of that day, kept for time travel."""

MAIN = "main"

PASSES_A_DAY = 24
"""Expiry waits for its share of `count`, so that its commit is spread over many batches."""

AT_MOST = 2_000
"""Snapshots that one commit removes: a table with a longer history gets there in several."""


def expiry_of(
    view: TableView, keep: KeepSnapshots, *, now: datetime, checkpoint: str, tag_time: datetime | None = None
) -> Expiry:
    """What may go. `checkpoint` is the tag of the snapshot that carries the table's state.

    Age counts from the earlier of `now` and the newest snapshot, so that a clock ahead expires nothing extra. Daily
    tags are dropped by `tag_time`, if it is given and earlier.
    """
    if view.properties.get("gc.enabled") == "false" or not view.snapshots:
        return Expiry()
    view = replace(view, snapshots=dict(view.snapshots))  # made once, not at each look
    reference = min(now, max(snapshot.committed_at for snapshot in view.snapshots.values()))
    chain = list(view.ancestry(view.head))
    first = min(reference, tag_time or reference).date() - timedelta(days=keep.daily)
    put, drop = _daily_tags(view, chain, first, reference.date())
    kept = {
        *_recent(chain, keep, reference),
        *_state_of_head(view, chain, checkpoint),
        *(snapshot_id for name, snapshot_id in view.tags.items() if name not in drop),
        *put.values(),
        *_branches(view, {snapshot.id for snapshot in chain}),
    }
    kept |= _unreferenced(view, kept, chain, reference - keep.age)
    gone = sorted((s for s in view.snapshots.values() if s.id not in kept), key=lambda s: s.committed_at)
    return Expiry(tuple(snapshot.id for snapshot in gone[:AT_MOST]), put, drop)


def enough(keep: KeepSnapshots) -> int:
    """How many snapshots are worth a commit."""
    return max(keep.count // PASSES_A_DAY, 1)


def is_due(expiry: Expiry, view: TableView, keep: KeepSnapshots, *, now: datetime) -> bool:
    """Whether there is enough for a commit: an hour's worth, a day's tag, or what is a day overdue."""
    if expiry.put or expiry.drop or len(expiry.snapshots) >= enough(keep):
        return True
    overdue = now - 2 * keep.age
    return any(view.snapshots[each].committed_at < overdue for each in expiry.snapshots)


def _recent(chain: list[Snapshot], keep: KeepSnapshots, reference: datetime) -> Iterator[int]:
    oldest = reference - keep.age
    return (snapshot.id for snapshot in chain[: keep.count] if snapshot.committed_at >= oldest)


def _state_of_head(view: TableView, chain: list[Snapshot], checkpoint: str) -> Iterator[int]:
    """The head, the snapshot that carries its state, the checkpoint's, and everything between them."""
    last = 0
    for position, snapshot in enumerate(chain):
        if snapshot.id == view.tags.get(checkpoint):
            last = position
    carrier = next((position for position, s in enumerate(chain) if carries_state(s)), len(chain) - 1)
    return (snapshot.id for snapshot in chain[: max(last, carrier) + 1])


def _branches(view: TableView, of_main: set[int]) -> Iterator[int]:
    """Every snapshot of the other branches, down to and with the one of `main` that they began at."""
    for name, head in view.branches.items():
        if name == MAIN:
            continue
        for snapshot in view.ancestry(head):
            yield snapshot.id
            if snapshot.id in of_main:
                break


def _unreferenced(view: TableView, kept: set[int], chain: list[Snapshot], oldest: datetime) -> set[int]:
    """Snapshots on no branch, such as those that a rollback left behind: kept for the same age, in any number."""
    elsewhere = view.snapshots.keys() - kept - {snapshot.id for snapshot in chain}
    return {each for each in elsewhere if view.snapshots[each].committed_at >= oldest}


def _daily_tags(
    view: TableView, chain: list[Snapshot], first: date, today: date
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Tags to set on the last snapshot of each day that is over, and those that are out of date."""
    last_of_day: dict[date, Snapshot] = {}
    for snapshot in chain:
        day = snapshot.committed_at.date()
        known = last_of_day.get(day)
        if known is None or (carries_state(snapshot) and not carries_state(known)):
            last_of_day[day] = snapshot
    wanted = {DAILY_PREFIX + day.isoformat(): s.id for day, s in last_of_day.items() if first <= day < today}
    ours = {name: _day_of(name) for name in view.tags}
    drop = tuple(sorted(name for name, day in ours.items() if day is not None and day < first))
    return {name: each for name, each in wanted.items() if name not in view.tags}, drop


def _day_of(tag: str) -> date | None:
    """The day that one of our daily tags is for; None for any other tag, which is a pin."""
    try:
        return date.fromisoformat(tag.removeprefix(DAILY_PREFIX)) if tag.startswith(DAILY_PREFIX) else None
    except ValueError:
        return None
