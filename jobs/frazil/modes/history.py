"""`write: history`: each record is a row, which is valid from its own time to that of the next one of its identity.

Intervals are half-open. A delete ends the interval of the row before it and is no row. Without `order_by`, offsets
order, so times never decrease: a record with an earlier time than one before it has the greatest time so far
(docs/decisions/0036). With `order_by`, see `ordered_history.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.model.probe import FoundRows
from frazil.model.updates import NULL, RowUpdates
from frazil.modes.deletes import deleted_rows, deletions, figures_of
from frazil.modes.memory import Deletes
from frazil.modes.mode import BatchChange, Find, Mode, Written
from frazil.modes.upsert import DELETE, Changes, Grouped, StoredRows, changes_of, check_partitions, grouped, stored_of
from frazil.modes.validity import IS_CURRENT, OPEN, VALID_FROM, VALID_TO
from frazil.modes.wanted import Numbers, as_array
from frazil.proof.rows import prove_rows

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Intervals:
    """From when to when rows are valid, by column: `end` is `OPEN` for one that is valid still."""

    begin: Numbers
    end: Numbers

    def differ(self, other: Intervals) -> Numbers:
        """Return the indexes of the rows with another interval."""
        return np.flatnonzero((self.begin != other.begin) | (self.end != other.end))

    def take(self, which: Numbers) -> Intervals:
        return Intervals(self.begin[which], self.end[which])


@dataclass(frozen=True, slots=True)
class _Events:
    """What begins or ends rows, by column. The end of a stored row is an event of its own, and `is_end`.

    Unless the next row begins there: a record between the two, of a replay, is the end then.
    """

    place: Numbers
    time: Numbers
    offset: Numbers
    is_end: Numbers
    is_row: Flags

    def take(self, which: Numbers) -> _Events:
        return _Events(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def follows_its_like(self) -> Flags:
        """Return whether each event but the first one is of the same identity as the one before."""
        return np.asarray(np.diff(self.place) == 0)


@dataclass(frozen=True, slots=True)
class Batch:
    """The records of a batch, and the stored rows of their identities: in `found` by file, in `stored` by column."""

    written: Written
    changes: Changes
    identities: Grouped
    found: Sequence[FoundRows]
    stored: StoredRows


def read_batch(written: Written, find: Find) -> Batch:
    """Find the stored rows of the identities of a batch."""
    changes = changes_of(written, columns=1)
    identities = grouped(changes)
    found = find(identities.first, identities.second) if len(changes) else ()
    return Batch(written, changes, identities, found, stored_of(found, columns=2))


def keep_every_version(written: Written, find: Find) -> BatchChange:
    """Return the change after which the rows of each identity follow each other in time."""
    batch = read_batch(written, find)
    check_partitions(batch.changes, batch.identities, batch.stored)
    return change_of(batch, *chained(batch.changes, batch.identities, batch.stored))


def change_of(
    batch: Batch, ours_now: Intervals, theirs_now: Intervals, remembered: Deletes | None = None
) -> BatchChange:
    """Return the change that gives these intervals to the rows of a batch and to stored rows."""
    written, found, changes, stored = batch.written, batch.found, batch.changes, batch.stored
    ours_before, theirs_before = intervals_of(changes), stored_intervals(stored)
    ours = np.intersect1d(ours_now.differ(ours_before), np.flatnonzero(changes.file != DELETE), assume_unique=True)
    theirs = theirs_now.differ(theirs_before)
    updates = _updates(written, found, (changes, ours, ours_now), (stored, theirs, theirs_now))
    deletes = [
        *deleted_rows([each.path for each in written.followed], changes.file[ours], changes.position[ours]),
        *deletions(found, stored.file[theirs], stored.position[theirs]),
    ]
    figures = figures_of(written.rows, found, deletes, updated=len(updates))
    return BatchChange(written.files, figures, deletes, updates=updates, remembered=remembered)


HISTORY = Mode("history", change=keep_every_version, prove_rows=prove_rows)

_Changed = tuple[Changes | StoredRows, Numbers, Intervals]


def _updates(written: Written, found: Sequence[FoundRows], ours: _Changed, theirs: _Changed) -> RowUpdates:
    """Return the rows of the batch, and those of the table, whose intervals change."""
    paths = (*(each.path for each in written.followed), *(each.file.path for each in found))
    first_number = (0, len(written.followed))
    files = [rows.file[which] + first for (rows, which, _), first in zip((ours, theirs), first_number, strict=True)]
    begin, end = (
        np.concatenate([getattr(now, name)[which] for _, which, now in (ours, theirs)]) for name in ("begin", "end")
    )
    return RowUpdates(
        paths,
        as_array(np.concatenate(files)),
        as_array(np.concatenate([rows.position[which] for rows, which, _ in (ours, theirs)])),
        {
            VALID_FROM: as_array(begin),
            VALID_TO: as_array(np.where(end == OPEN, NULL, end)),
            IS_CURRENT: as_array((end == OPEN).astype(np.int64)),
        },
    )


def intervals_of(changes: Changes) -> Intervals:
    """Return the intervals with which the rows of a batch are written at first."""
    return Intervals(changes.order[0], np.full(len(changes), OPEN, np.int64))


def stored_intervals(stored: StoredRows) -> Intervals:
    begin, end, *_ = stored.order
    return Intervals(begin, end)


def chained(changes: Changes, identities: Grouped, stored: StoredRows) -> tuple[Intervals, Intervals]:
    """Return the intervals of the rows of a batch and of stored rows, of identities with records of one partition.

    The order of the changes is their time, partition and offset, and that of the stored rows begins with their
    interval. What is returned for a delete has no meaning.
    """
    events = _events(changes, identities, stored)
    order = np.lexsort((events.is_end, events.offset, events.place))
    order = order[_leaves_a_trace(events.take(order))]
    in_order = events.take(order)
    time = _never_decreasing(in_order.place, in_order.time)
    end = np.full(len(order), OPEN, np.int64)
    end[:-1] = np.where(in_order.follows_its_like(), time[1:], OPEN)
    begin_of, end_of = (np.full(len(events.place), OPEN, np.int64) for _ in range(2))
    begin_of[order], end_of[order] = time, end
    every = Intervals(begin_of, end_of)
    ours, theirs = np.arange(len(changes)), len(changes) + np.arange(len(stored.place))
    return every.take(ours), every.take(theirs)


def _events(changes: Changes, identities: Grouped, stored: StoredRows) -> _Events:
    (time, _, offset), (begin, end, _, offset_of_stored) = changes.order, stored.order
    ended = np.flatnonzero((end != OPEN) & (end != _next_begins(stored)))
    return _Events(
        place=np.concatenate([identities.place, stored.place, stored.place[ended]]),
        time=np.concatenate([time, begin, end[ended]]),
        offset=np.concatenate([offset, offset_of_stored, offset_of_stored[ended]]),
        is_end=np.repeat([0, 1], [len(changes) + len(begin), len(ended)]),
        is_row=np.concatenate([changes.file != DELETE, np.ones(len(begin), np.bool_), np.zeros(len(ended), np.bool_)]),
    )


def _next_begins(stored: StoredRows) -> Numbers:
    """Return when the next row of its identity begins, for each stored row; `OPEN` for the last one."""
    begin, _, _, offset = stored.order
    order = np.lexsort((offset, stored.place))
    of_each = np.full(len(order), OPEN, np.int64)
    of_each[order[:-1]] = np.where(np.diff(stored.place[order]) == 0, begin[order[1:]], OPEN)
    return of_each


def _leaves_a_trace(events: _Events) -> Numbers:
    """Return the events without the deletes that end no row: the table does not have their time."""
    after_row = np.zeros(len(events.place), np.bool_)
    after_row[1:] = events.follows_its_like() & events.is_row[:-1]
    return np.flatnonzero(events.is_row | after_row)


def _never_decreasing(place: Numbers, time: Numbers) -> Numbers:
    """Return the greatest time so far of each place. Places ascend."""
    times, rank = np.unique(time, return_inverse=True)
    count = max(len(times), 1)
    return np.asarray(times[np.maximum.accumulate(place * count + rank) % count])
