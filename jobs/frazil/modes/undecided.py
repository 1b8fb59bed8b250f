"""Records that come late, of which a table cannot say what they change: it may lack the deletes that followed them.

For a replay (docs/decisions/0046). A record of a batch is newer than all of its identity, or is compared with a row or
with a remembered delete. One that was read long ago may be older than a delete of which nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from frazil.model.spec import TableSpec
from frazil.modes.history import stored_intervals
from frazil.modes.memory import Memory
from frazil.modes.mode import Find, Written
from frazil.modes.order import Flags
from frazil.modes.upsert import (
    DELETE,
    Changes,
    Grouped,
    StoredRows,
    changes_of,
    columns_of,
    grouped,
    settle,
    stored_of,
    with_remembered,
)
from frazil.modes.validity import OPEN
from frazil.modes.wanted import Numbers

MayLackDeletes = Callable[[Numbers, Numbers], Flags]
"""Says of records, by partition and offset, whether the table may lack a delete that is newer than they are."""


def undecided(spec: TableSpec, written: Written, find: Find, may_lack: MayLackDeletes) -> dict[int, Numbers]:
    """Return the records that are not to be applied, as ascending offsets by partition: of an upsert or a history."""
    changes = changes_of(written, columns=columns_of(written))
    if not len(changes):
        return {}
    identities = grouped(changes)
    found = find(identities.first, identities.second)
    stored = stored_of(found, columns=2 if spec.keeps_history else columns_of(written))
    *_, partition, offset = changes.order
    lacking = may_lack(partition, offset)
    if not spec.keeps_history:
        known = _are_compared(changes, identities, stored, written.memory)
        left = lacking & ~known & (changes.file != DELETE)
    elif spec.order_by is not None:
        left = lacking & ~_inside_an_interval(changes, identities, stored) & (changes.file != DELETE)
    else:
        left = lacking & ~_follow_the_open_row(changes, identities, stored)
    if spec.order_by is None:
        left |= _in_two_partitions(changes, identities, stored)
    return {int(number): np.sort(offset[left & (partition == number)]) for number in np.unique(partition[left])}


def _are_compared(changes: Changes, identities: Grouped, stored: StoredRows, memory: Memory) -> Flags:
    """Return whether each record can be compared with a row of its identity, or is older than a remembered delete.

    A row that is older than a record was not deleted since, so its identity was not deleted after the record.
    """
    compared = np.isin(identities.place, stored.place)
    compared[settle(changes, identities, with_remembered(stored, identities, memory)).late] = True
    return compared


def _in_two_partitions(changes: Changes, identities: Grouped, stored: StoredRows) -> Flags:
    """Return whether records of the identity of each one are in two partitions, whose offsets say no order."""
    place = np.concatenate([identities.place, stored.place])
    partition = np.concatenate([changes.order[-2], stored.order[-2]])
    least, greatest = np.full(len(identities.first), OPEN), np.full(len(identities.first), -1)
    np.minimum.at(least, place, partition)
    np.maximum.at(greatest, place, partition)
    return np.asarray((least != greatest)[identities.place])


def _follow_the_open_row(changes: Changes, identities: Grouped, stored: StoredRows) -> Flags:
    """Return whether each record follows all rows of its identity, of which the last one is valid still."""
    ascending = np.lexsort((stored.order[-1], stored.place))
    newest, end = np.full(len(identities.first), -1), np.zeros(len(identities.first), np.int64)
    newest[stored.place[ascending]] = stored.order[-1][ascending]
    end[stored.place[ascending]] = stored_intervals(stored).end[ascending]
    return np.asarray((end[identities.place] == OPEN) & (changes.order[-1] > newest[identities.place]))


def _inside_an_interval(changes: Changes, identities: Grouped, stored: StoredRows) -> Flags:
    """Return whether a row was valid before and after the time of each record: no delete ended it there."""
    begin, end = stored_intervals(stored).begin, stored_intervals(stored).end
    place = np.concatenate([identities.place, stored.place])
    time = np.concatenate([changes.order[0], begin])
    is_stored = np.repeat([0, 1], [len(changes), len(begin)])
    until = np.concatenate([np.full(len(changes), -OPEN), end])
    order = np.lexsort((until, is_stored, time, place))
    before = np.maximum.accumulate(np.where(is_stored[order] == 1, np.arange(len(order)), -1))
    row = order[np.maximum(before, 0)]
    inside = (before >= 0) & (place[row] == place[order]) & (until[row] > time[order])
    flags = np.empty(len(order), np.bool_)
    flags[order] = inside
    return flags[: len(changes)]
