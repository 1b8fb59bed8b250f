"""Decide which snapshots expire: pure functions of one read of a table's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

from frazil.model.expiry import Expiry
from frazil.model.outputs import OUTPUT_TAG
from frazil.model.snapshot import MAIN, Snapshot, TableView
from frazil.model.spec import KeepSnapshots
from frazil.model.summary import is_rewrite
from frazil.model.transforms import TRANSFORM_TAG, records_batch

DAILY_PREFIX = "frazil_daily_"
"""The prefix of daily tags, followed by a day in UTC. Each keeps the last snapshot of its day for time travel."""

UNSENT_FOR = timedelta(days=3)
"""How long snapshots are kept that an output topic has not sent, or a transformation has not read."""

PASSES_A_DAY = 24
"""Expiry waits until `count` / this many snapshots can be removed, so that one commit serves many batches."""

AT_MOST = 2_000
"""The maximum number of snapshots that one commit removes. A longer history takes several commits."""


def expiry_of(
    view: TableView, keep: KeepSnapshots, *, now: datetime, checkpoint: str, tag_time: datetime | None = None
) -> Expiry:
    """Return the snapshots and tags to remove. `checkpoint` is the tag of the snapshot that holds the table's state.

    Ages are measured from the earlier of `now` and the newest snapshot's time, so that a clock that is ahead expires
    nothing too early. The ages of daily tags are measured from `tag_time` if it is given and earlier.
    """
    if view.properties.get("gc.enabled") == "false" or not view.snapshots:
        return Expiry()
    view = replace(view, snapshots=dict(view.snapshots))  # copied once, not at each look-up
    reference = min(now, max(snapshot.committed_at for snapshot in view.snapshots.values()))
    chain = list(view.ancestry(view.head))
    first = min(reference, tag_time or reference).date() - timedelta(days=keep.daily)
    put, drop = _daily_tags(view, chain, first, reference.date())
    kept = {
        *_recent(chain, keep, reference),
        *_state_of_head(view, chain, checkpoint),
        *_unsent(view, chain, reference),
        *(snapshot_id for name, snapshot_id in view.tags.items() if name not in drop),
        *put.values(),
        *_branches(view, {snapshot.id for snapshot in chain}),
    }
    kept |= _unreferenced(view, kept, chain, reference - keep.age)
    gone = sorted((s for s in view.snapshots.values() if s.id not in kept), key=lambda s: s.committed_at)
    return Expiry(tuple(snapshot.id for snapshot in gone[:AT_MOST]), put, drop)


def enough(keep: KeepSnapshots) -> int:
    """Return the least number of expired snapshots that justifies a commit."""
    return max(keep.count // PASSES_A_DAY, 1)


def is_due(expiry: Expiry, view: TableView, keep: KeepSnapshots, *, now: datetime) -> bool:
    """Return whether a commit is due: for enough snapshots, a new daily tag, or a snapshot that is a day overdue."""
    if expiry.put or expiry.drop or len(expiry.snapshots) >= enough(keep):
        return True
    overdue = now - 2 * keep.age
    return any(view.snapshots[each].committed_at < overdue for each in expiry.snapshots)


def _recent(chain: list[Snapshot], keep: KeepSnapshots, reference: datetime) -> Iterator[int]:
    oldest = reference - keep.age
    return (snapshot.id for snapshot in chain[: keep.count] if snapshot.committed_at >= oldest)


def _state_of_head(view: TableView, chain: list[Snapshot], checkpoint: str) -> Iterator[int]:
    """Yield the head, the snapshot that holds its state, the checkpoint's, and all snapshots between them."""
    last = 0
    for position, snapshot in enumerate(chain):
        if snapshot.id == view.tags.get(checkpoint):
            last = position
    carrier = next((position for position, s in enumerate(chain) if records_batch(s)), len(chain) - 1)
    return (snapshot.id for snapshot in chain[: max(last, carrier) + 1])


def _unsent(view: TableView, chain: list[Snapshot], reference: datetime) -> Iterator[int]:
    """Yield the snapshots that an output or a transformation has not read yet, for as long as it may take.

    The next batch is read as what follows the last one, so what is between them, such as a rewrite, is needed as long.
    """
    sent = {snapshot_id for name, snapshot_id in view.tags.items() if name.startswith((OUTPUT_TAG, TRANSFORM_TAG))}
    last = max((position for position, snapshot in enumerate(chain) if snapshot.id in sent), default=0)
    oldest, next_batch = reference - UNSENT_FOR, None
    for snapshot in chain[:last]:
        next_batch = snapshot.committed_at if records_batch(snapshot) else next_batch
        is_between = is_rewrite(snapshot) if next_batch is None else next_batch >= oldest
        if is_between or snapshot.committed_at >= oldest:
            yield snapshot.id


def _branches(view: TableView, of_main: set[int]) -> Iterator[int]:
    """Yield every snapshot of the other branches, including the snapshot of `main` from which they branched."""
    for name, head in view.branches.items():
        if name == MAIN:
            continue
        for snapshot in view.ancestry(head):
            yield snapshot.id
            if snapshot.id in of_main:
                break


def _unreferenced(view: TableView, kept: set[int], chain: list[Snapshot], oldest: datetime) -> set[int]:
    """Return snapshots on no branch, such as those before a rollback, that are young enough to keep, in any number."""
    elsewhere = view.snapshots.keys() - kept - {snapshot.id for snapshot in chain}
    return {each for each in elsewhere if view.snapshots[each].committed_at >= oldest}


def _daily_tags(
    view: TableView, chain: list[Snapshot], first: date, today: date
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the tags to set on the last snapshot of each past day, and the outdated tags to drop."""
    last_of_day: dict[date, Snapshot] = {}
    for snapshot in chain:
        day = snapshot.committed_at.date()
        known = last_of_day.get(day)
        if known is None or (records_batch(snapshot) and not records_batch(known)):
            last_of_day[day] = snapshot
    wanted = {DAILY_PREFIX + day.isoformat(): s.id for day, s in last_of_day.items() if first <= day < today}
    ours = {name: _day_of(name) for name in view.tags}
    drop = tuple(sorted(name for name, day in ours.items() if day is not None and day < first))
    return {name: each for name, each in wanted.items() if name not in view.tags}, drop


def _day_of(tag: str) -> date | None:
    """Return the day of a daily tag; None for any other tag, whose snapshot a user wants to keep."""
    try:
        return date.fromisoformat(tag.removeprefix(DAILY_PREFIX)) if tag.startswith(DAILY_PREFIX) else None
    except ValueError:
        return None
