"""Records that come late, of which a table cannot say what they change: it may lack the deletes that followed them.

For a replay (docs/decisions/0046). A record of a batch is newer than all of its identity, or is compared with a row or
with a remembered delete. One that was read long ago may be older than a delete of which nothing is left. And a change
event may be older than others that took values from the row before them, which would be its row (decision 0050).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from frazil.model.spec import TableSpec
from frazil.modes.history import stored_intervals
from frazil.modes.incomplete import NO_ROW_TO_KEEP
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
    completed,
    grouped,
    settle,
    stored_of,
    with_remembered,
)
from frazil.modes.validity import OPEN
from frazil.modes.wanted import Numbers

ORDER_UNKNOWN = "order_unknown"
"""Why a record is not applied: its identity may have been deleted after it."""

VALUES_UNKNOWN = "values_unknown"
"""Why a change event is not applied: later ones may have taken values from the row before it."""

Judge = Callable[[Numbers, Numbers], Flags]
"""Says something of records, by partition and offset."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What may have followed records, as far as the table knows.

    `by_deletes`: the table may lack a delete that is newer. `by_incomplete`: a newer change event took values from the
    row before it, or had no row to take them from; `lost_events` says whether the table ever skipped one of the latter.
    """

    by_deletes: Judge
    by_incomplete: Judge
    lost_events: bool = False


def undecided(spec: TableSpec, written: Written, find: Find, followed: Followed) -> dict[str, dict[int, Numbers]]:
    """Return the records that are not to be applied, of an upsert or a history: by the reason, then by partition.

    These are ascending offsets, each under one reason.
    """
    changes = changes_of(written, columns=columns_of(written))
    if not len(changes):
        return {}
    identities = grouped(changes)
    found = find(identities.first, identities.second)
    stored = stored_of(found, columns=2 if spec.keeps_history else columns_of(written))
    *_, partition, offset = changes.order
    lacking = followed.by_deletes(partition, offset)
    if not spec.keeps_history:
        known = _are_compared(changes, identities, stored, written.memory)
        left = lacking & ~known & (changes.file != DELETE)
    elif spec.order_by is not None:
        left = lacking & ~_inside_an_interval(changes, identities, stored) & (changes.file != DELETE)
    else:
        left = lacking & ~_follow_the_open_row(changes, identities, stored)
    if not spec.order:
        left |= _in_two_partitions(changes, identities, stored)
    reasons = {ORDER_UNKNOWN: left}
    if spec.cdc != "none":
        reasons[VALUES_UNKNOWN] = _values_unknown(changes, identities, stored, written.memory, followed) & ~left
        left = left | reasons[VALUES_UNKNOWN]
        settled = settle(changes, identities, with_remembered(stored, identities, written.memory))
        settled = replace(settled, late=np.union1d(settled.late, np.flatnonzero(left)))
        reasons[NO_ROW_TO_KEEP] = np.zeros(len(changes), np.bool_)
        reasons[NO_ROW_TO_KEEP][completed(written, found, changes, identities, stored, settled).unkept] = True
    return {reason: _by_partition(changes, which) for reason, which in reasons.items() if which.any()}


def _by_partition(changes: Changes, which: Flags) -> dict[int, Numbers]:
    *_, partition, offset = changes.order
    return {int(number): np.sort(offset[which & (partition == number)]) for number in np.unique(partition[which])}


def _values_unknown(
    changes: Changes, identities: Grouped, stored: StoredRows, memory: Memory, followed: Followed
) -> Flags:
    """Return which change events may have given values to the newer row of their identity, or to one that was skipped.

    Such a row would be another one if the event had been applied in its turn. After a delete, rows take nothing from
    before it.
    """
    compared = np.isin(identities.place, stored.place)
    older = np.zeros((2, len(changes)), np.bool_)
    nothing = StoredRows(stored.place[:0], tuple(c[:0] for c in stored.order), stored.file[:0], stored.position[:0])
    for flags, rows in zip(older, (stored, nothing), strict=True):
        flags[settle(changes, identities, with_remembered(rows, identities, memory)).late] = True
    than_any, than_delete = older
    has_no_row = ~than_any & ~compared
    exposed = (than_any & ~than_delete) | (has_no_row & followed.lost_events)
    return np.asarray(exposed & followed.by_incomplete(*changes.order[-2:]))


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
