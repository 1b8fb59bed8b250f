"""Which rows a batch leaves in a table with one row for each identity (docs/decisions/0036).

The newest record of an identity wins. If it is a row, it takes the place of the stored one; if it is a delete, the
identity has no row. A record that is not newer than the stored row of its identity is late, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.model.ingested import DeletedRows
from frazil.modes.wanted import Numbers

Order = tuple[Numbers, ...]
"""Columns of longs, one value for each record: compared from the first column on, a greater one is newer."""

_Flags = npt.NDArray[np.bool_]
DELETE = -1


@dataclass(frozen=True, slots=True)
class Changes:
    """The records of a batch, by column: the two halves of their identity, their order, and where their row is.

    `file` is the number of a data file, or `DELETE` for a record that takes the identity's row out.
    """

    first: Numbers
    second: Numbers
    order: Order
    file: Numbers
    position: Numbers

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of the table, by column: the place of their identity in `Grouped`, their order, their file and position."""

    place: Numbers
    order: Order
    file: Numbers
    position: Numbers


@dataclass(frozen=True, slots=True)
class Grouped:
    """The records of a batch by their identity: the distinct identities, and the place of each record's among them."""

    first: Numbers
    second: Numbers
    place: Numbers


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of a batch's records and of stored rows, each by index, ascending.

    `live` are the records whose rows are in the table now, `late` those that a stored row is newer than, `replaced` the
    stored rows that are taken out. The other records became a row, or took one out, and another one of the batch
    followed them.
    """

    live: Numbers
    late: Numbers
    replaced: Numbers


def grouped(changes: Changes) -> Grouped:
    """Find the distinct identities of a batch."""
    by_identity = np.lexsort((changes.second, changes.first))
    first, second = changes.first[by_identity], changes.second[by_identity]
    begins = np.ones(len(changes), np.bool_)
    begins[1:] = (np.diff(first) != 0) | (np.diff(second) != 0)
    place = np.empty(len(changes), np.int64)
    place[by_identity] = np.cumsum(begins) - 1
    return Grouped(first[begins], second[begins], place)


def settle(changes: Changes, identities: Grouped, stored: StoredRows) -> Settled:
    """Decide which records and which stored rows stay. A record has the order of a stored row if it is the same one."""
    stored_at, newest_stored = _newest(stored.place, stored.order)
    late = _is_late(changes, identities.place, stored, stored_at, newest_stored)
    on_time = np.flatnonzero(~late)
    won_at, winners = _newest(identities.place[on_time], tuple(column[on_time] for column in changes.order))
    live = np.sort(on_time[winners])
    return Settled(
        live=live[changes.file[live] != DELETE],
        late=np.flatnonzero(late),
        replaced=np.flatnonzero(np.isin(stored.place, won_at)),
    )


def deleted_rows(paths: Sequence[str], file: Numbers, position: Numbers) -> Iterator[DeletedRows]:
    """Yield the rows to take out of each file: `file` has numbers of `paths`, `position` a row for each."""
    order = np.lexsort((position, file))
    numbers, starts = np.unique(file[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for number, start, end in zip(numbers.tolist(), starts, ends, strict=False):
        yield DeletedRows(paths[number], position[order[start:end]].tolist())


def taken_out(changes: Changes, settled: Settled) -> Numbers:
    """Return the records whose row is in a file of the batch and must not be in the table."""
    stays = np.zeros(len(changes), np.bool_)
    stays[settled.live] = True
    return np.flatnonzero(~stays & (changes.file != DELETE))


def _newest(place: Numbers, order: Order) -> tuple[Numbers, Numbers]:
    """Return each place that occurs, ascending, and the index of the newest record there."""
    ascending = np.lexsort((*reversed(order), place))
    places = place[ascending]
    is_last = np.ones(len(places), np.bool_)
    is_last[:-1] = np.diff(places) != 0
    return places[is_last], ascending[is_last]


def _is_late(
    changes: Changes, place: Numbers, stored: StoredRows, stored_at: Numbers, newest_stored: Numbers
) -> _Flags:
    """Return which records are not newer than the newest stored row of their identity."""
    late = np.zeros(len(changes), np.bool_)
    found = np.searchsorted(stored_at, place)
    has_row = np.flatnonzero(found < len(stored_at))
    has_row = has_row[stored_at[found[has_row]] == place[has_row]]
    rival = newest_stored[found[has_row]]
    pairs = [(ours[has_row], theirs[rival]) for ours, theirs in zip(changes.order, stored.order, strict=True)]
    late[has_row] = ~_is_newer(pairs, len(has_row))
    return late


def _is_newer(pairs: Sequence[tuple[Numbers, Numbers]], count: int) -> _Flags:
    newer, equal = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for ours, theirs in pairs:
        newer |= equal & (ours > theirs)
        equal &= ours == theirs
    return newer
