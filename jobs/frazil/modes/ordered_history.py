"""`write: history` with `order_by`: intervals by the time in a column, in whichever order the records come.

The records of an identity are ordered by their time, partition and offset. Each row is valid until the time of the
record that follows it, which may be a delete. So a late record splits the interval that it falls into, and a late
delete ends it early (docs/decisions/0036).
"""

from __future__ import annotations

import numpy as np

from frazil.modes.history import Intervals, change_of, read_batch
from frazil.modes.memory import Deletes
from frazil.modes.mode import BatchChange, Find, Mode, Written
from frazil.modes.upsert import DELETE, Changes, Grouped, StoredRows
from frazil.modes.validity import OPEN
from frazil.modes.wanted import Numbers
from frazil.proof.rows import prove_rows

FIRST_OF_ITS_TIME = -(2**63)
"""The partition and offset of a delete of which only the time is known."""


def keep_every_version_by_time(written: Written, find: Find) -> BatchChange:
    """Return the change after which the rows of each identity follow each other in the order of their times."""
    batch = read_batch(written, find)
    memory = written.memory
    ours, theirs = in_order(batch.changes, batch.identities, batch.stored, memory.deletes)
    deletes = np.flatnonzero(batch.changes.file == DELETE)
    changes = batch.changes.take(deletes)
    remembered = memory.with_all(changes.first, changes.second, changes.order) if len(deletes) else None
    return change_of(batch, ours, theirs, remembered)


ORDERED_HISTORY = Mode("history", change=keep_every_version_by_time, prove_rows=prove_rows)


def in_order(
    changes: Changes, identities: Grouped, stored: StoredRows, remembered: Deletes
) -> tuple[Intervals, Intervals]:
    """Return the intervals of the rows of a batch and of all stored rows of its identities.

    The order of the changes is their time, partition and offset, and that of the stored rows begins with their
    interval. What is returned for a delete has no meaning.
    """
    (time, partition, offset), (begin, end, *source) = changes.order, stored.order
    place_of_delete, deletes = remembered.of(identities.first, identities.second)
    time_of_delete, *source_of_delete = deletes.order or (np.empty(0, np.int64),) * 3
    ended = np.flatnonzero(end != OPEN)
    is_empty = begin[ended] == end[ended]
    source_of_end = [np.where(is_empty, column[ended], FIRST_OF_ITS_TIME) for column in source]
    place = np.concatenate([identities.place, stored.place, place_of_delete, stored.place[ended]])
    times = np.concatenate([time, begin, time_of_delete, end[ended]])
    partitions, offsets = (
        np.concatenate(columns)
        for columns in zip((partition, offset), source, source_of_delete, source_of_end, strict=True)
    )
    is_end = np.repeat([0, 1], [len(times) - len(ended), len(ended)])
    order = np.lexsort((is_end, offsets, partitions, times, place))
    ends = _next_times(place[order], times[order])
    of_each = np.empty(len(order), np.int64)
    of_each[order] = ends
    ours = len(changes)
    return Intervals(time, of_each[:ours]), Intervals(begin, of_each[ours : ours + len(begin)])


def _next_times(place: Numbers, times: Numbers) -> Numbers:
    """Return the time of what follows each event in its place, or `OPEN`. Places ascend."""
    ends = np.full(len(times), OPEN, np.int64)
    ends[:-1] = np.where(np.diff(place) == 0, times[1:], OPEN)
    return ends
