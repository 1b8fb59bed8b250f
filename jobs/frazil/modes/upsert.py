"""`write: upsert`: which rows a batch leaves in a table with one row for each identity (docs/decisions/0036).

The newest record of an identity wins. If it is a row, it takes the place of the stored one; if it is a delete, the
identity has no row. A record that is not newer than the stored row of its identity is late, and changes nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.model.ingested import FollowedRecords
from frazil.model.probe import FoundRows
from frazil.modes.deletes import deleted_rows, deletions, figures_of
from frazil.modes.incomplete import Chains, Completed, complete
from frazil.modes.memory import Deletes, Memory
from frazil.modes.mode import BatchChange, Find, KeyInTwoPartitionsError, Late, Mode, Written
from frazil.modes.order import Flags, is_newer
from frazil.modes.truncation import OutOfTable
from frazil.modes.wanted import Numbers, as_numbers
from frazil.proof.rows import prove_rows
from frazil.proof.tally import each_partition, sums_of

Order = tuple[Numbers, ...]
"""Columns of longs, one value for each record: compared from the first column on, a greater one is newer.

The last two are the partition and the offset.
"""

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

    def take(self, which: Numbers) -> Changes:
        order = tuple(column[which] for column in self.order)
        return Changes(self.first[which], self.second[which], order, self.file[which], self.position[which])


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of the table, by column: the place of their identity in `Grouped`, their order, their file and position.

    The `file` of a remembered delete is `DELETE`.
    """

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

    `live` are the records whose rows are in the table now, `late` those that a stored row or a remembered delete is
    newer than, `replaced` the stored rows that are taken out, and `deletes` the records after which their identity has
    no row. The other records became a row, or took one out, and another one of the batch followed them.
    """

    live: Numbers
    late: Numbers
    replaced: Numbers
    deletes: Numbers


def keep_the_newest(written: Written, find: Find) -> BatchChange:
    """Return the change after which each identity has the row of its newest record, or none if that is a delete."""
    cut, columns = written.truncation, columns_of(written)
    changes = changes_of(written, columns=columns)
    identities = grouped(changes)
    found = find(identities.first, identities.second) if len(changes) else ()
    rows = stored_of(found, columns=columns)
    stored = with_remembered(rows, identities, written.memory)
    if not columns:
        check_partitions(changes, identities, stored)
    settled = settle(changes, identities, stored)
    if cut is not None:
        settled = replace(settled, live=settled.live[changes.order[-1][settled.live] > cut.last])
    whole = completed(written, found, changes, identities, rows, settled)
    settled = _without_unkept(settled, whole.unkept, changes, identities)
    ours, theirs = taken_out(changes, settled), settled.replaced if cut is None else settled.replaced[:0]
    late = settled.late
    late_rows, late_deletes = late[changes.file[late] != DELETE], late[changes.file[late] == DELETE]
    replaced = np.setdiff1d(ours, [*late_rows, *whole.unkept], assume_unique=True)
    rewritten = np.union1d(ours, whole.records)
    deletes = [
        *deleted_rows([each.path for each in written.followed], changes.file[rewritten], changes.position[rewritten]),
        *(deletions(found, stored.file[theirs], stored.position[theirs]) if cut is None else cut.dropped()),
    ]
    *_, partition, offset = changes.order
    partition_of_stored, offset_of_stored = _each_once(*(column[theirs] for column in stored.order[-2:]))
    return BatchChange(
        written.files,
        figures_of(written.rows, found if cut is None else cut.found(), deletes, updated=len(whole.records)),
        deletes,
        whole.updates,
        late=_late(partition, offset, late_rows, late_deletes),
        replaced=_together(
            _out_of_table(
                np.concatenate([partition[replaced], partition_of_stored]),
                np.concatenate([offset[replaced], offset_of_stored]),
            ),
            {} if cut is None else cut.rows,
        ),
        unkept=_out_of_table(partition[whole.unkept], offset[whole.unkept]),
        copies=len(theirs) - len(offset_of_stored),
        remembered=_remembered(changes, identities, settled.deletes, late_deletes, written.memory) if columns else None,
        lacking=whole.lacking,
    )


def completed(
    written: Written,
    found: Sequence[FoundRows],
    changes: Changes,
    identities: Grouped,
    stored: StoredRows,
    settled: Settled,
) -> Completed:
    """Return what completes the rows of change events that take values from the row before them."""
    if not written.incomplete:
        return Completed()
    ascending = np.lexsort((*reversed(changes.order), identities.place))
    on_time = ascending[~np.isin(ascending, settled.late)]
    own, (*_, partition, offset) = len(written.followed), changes.order
    stored_at, newest = _newest(stored.place, stored.order)
    rows = zip((stored.file[newest] + own).tolist(), stored.position[newest].tolist(), strict=True)
    chains = Chains(
        record=on_time,
        identity=identities.place[on_time],
        partition=partition[on_time],
        offset=offset[on_time],
        file=changes.file[on_time],
        position=changes.position[on_time],
        stored=dict(zip(stored_at.tolist(), rows, strict=True)),
        paths=(*(each.path for each in written.followed), *(each.file.path for each in found)),
        truncates=np.array([] if written.truncation is None else written.truncation.offsets, np.int64),
    )
    return complete(written.incomplete, chains)


def _without_unkept(settled: Settled, unkept: Numbers, changes: Changes, identities: Grouped) -> Settled:
    """Return what stays where these records change nothing: a delete that only they follow is the newest one still."""
    if not len(unkept):
        return settled
    others = np.setdiff1d(np.arange(len(changes)), np.union1d(settled.late, unkept), assume_unique=True)
    _, winners = _newest(identities.place[others], tuple(column[others] for column in changes.order))
    newest = np.sort(others[winners])
    live = np.setdiff1d(settled.live, unkept, assume_unique=True)
    return replace(settled, live=live, deletes=newest[changes.file[newest] == DELETE])


def with_remembered(stored: StoredRows, identities: Grouped, memory: Memory) -> StoredRows:
    """Return stored rows and remembered deletes of the identities."""
    if not len(memory.deletes) or not len(identities.first):
        return stored
    place, deletes = memory.deletes.of(identities.first, identities.second)
    none = np.full(len(place), DELETE, np.int64)
    return StoredRows(
        place=np.concatenate([stored.place, place]),
        order=tuple(np.concatenate(pair) for pair in zip(stored.order, deletes.order, strict=True)),
        file=np.concatenate([stored.file, none]),
        position=np.concatenate([stored.position, none]),
    )


def _remembered(
    changes: Changes, identities: Grouped, deletes: Numbers, late: Numbers, memory: Memory
) -> Deletes | None:
    """Return the deletes that are remembered now, if not as before.

    A late delete loses to the row of its key, or to the remembered delete, which is as new as itself from now on.
    """
    places = np.unique(identities.place[late])
    renewed = memory.renewed(identities.first[places], identities.second[places])
    if not len(deletes):
        return None if renewed is memory else renewed.deletes
    taken = changes.take(deletes)
    return renewed.with_newest(taken.first, taken.second, taken.order)


def check_partitions(changes: Changes, identities: Grouped, stored: StoredRows) -> None:
    """Raise KeyInTwoPartitionsError if an identity has records of two partitions, whose offsets say no order."""
    place = np.concatenate([identities.place, stored.place])
    partition, offset = (np.concatenate(pair) for pair in zip(changes.order[-2:], stored.order[-2:], strict=True))
    by_place = np.lexsort((partition, place))
    same = np.diff(place[by_place]) == 0
    moved = np.flatnonzero(same & (np.diff(partition[by_place]) != 0))
    if len(moved):
        one, other = by_place[moved[0]], by_place[moved[0] + 1]
        raise KeyInTwoPartitionsError(
            *((int(partition[each]), int(offset[each])) for each in (one, other)), keys=len(moved)
        )


UPSERT = Mode("upsert", change=keep_the_newest, prove_rows=prove_rows)


def changes_of(written: Written, *, columns: int) -> Changes:
    """Return the records of a batch, which so many columns order before partition and offset."""
    rows = [each.records for each in written.followed]
    records = [*rows, *written.deletes]
    places = [np.arange(len(each)) for each in rows]
    return Changes(
        first=_joined(each.first for each in records),
        second=_joined(each.second for each in records),
        order=_orders(records, columns=columns),
        file=_numbered([*map(len, rows)], total=sum(map(len, records))),
        position=np.concatenate([*places, np.full(sum(map(len, written.deletes)), DELETE)]).astype(np.int64),
    )


def columns_of(written: Written) -> int:
    """Return how many columns order the records of a batch before partition and offset."""
    records = (*(each.records for each in written.followed), *written.deletes)
    return len(records[0].order) if records else 0


def _orders(parts: Sequence[FollowedRecords] | Sequence[FoundRows], *, columns: int) -> Order:
    before = (_joined(each.order[number] for each in parts) for number in range(columns))
    return (*before, _joined(each.partition for each in parts), _joined(each.offset for each in parts))


def stored_of(found: Sequence[FoundRows], *, columns: int) -> StoredRows:
    counts = [len(each.place) for each in found]
    return StoredRows(
        place=_joined(each.place for each in found),
        order=_orders(found, columns=columns),
        file=_numbered(counts, total=sum(counts)),
        position=_joined(each.position for each in found),
    )


def _joined(parts: Iterable[array[int]]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *map(as_numbers, parts)])


def _numbered(counts: Sequence[int], *, total: int) -> Numbers:
    """Return the number of the file of each row, and `DELETE` for what follows them."""
    numbers = np.full(total, DELETE, np.int64)
    numbers[: sum(counts)] = np.repeat(np.arange(len(counts)), counts)
    return numbers


def _late(partition: Numbers, offset: Numbers, rows: Numbers, deletes: Numbers) -> dict[int, Late]:
    of_rows, of_deletes = (_out_of_table(partition[which], offset[which]) for which in (rows, deletes))
    nothing = OutOfTable()
    return {
        number: Late(of_rows.get(number, nothing), of_deletes.get(number, nothing).rows)
        for number in sorted({*of_rows, *of_deletes})
    }


def _out_of_table(partition: Numbers, offset: Numbers) -> dict[int, OutOfTable]:
    parts = ((number, offset if where is None else offset[where]) for number, where in each_partition(partition))
    return {number: OutOfTable(len(offsets), sums_of(offsets)) for number, offsets in parts if len(offsets)}


def _each_once(partition: Numbers, offset: Numbers) -> tuple[Numbers, Numbers]:
    """Return each record once: another engine may have copied its row."""
    ascending = np.lexsort((offset, partition))
    partition, offset = partition[ascending], offset[ascending]
    begins = np.ones(len(offset), np.bool_)
    begins[1:] = (np.diff(partition) != 0) | (np.diff(offset) != 0)
    return partition[begins], offset[begins]


def _together(one: Mapping[int, OutOfTable], other: Mapping[int, OutOfTable]) -> dict[int, OutOfTable]:
    nothing = OutOfTable()
    return {number: one.get(number, nothing) + other.get(number, nothing) for number in sorted({*one, *other})}


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
        deletes=live[changes.file[live] == DELETE],
        late=np.flatnonzero(late),
        replaced=np.flatnonzero(np.isin(stored.place, won_at) & (stored.file != DELETE)),
    )


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


def _is_late(changes: Changes, place: Numbers, stored: StoredRows, stored_at: Numbers, newest_stored: Numbers) -> Flags:
    """Return which records are not newer than the newest stored row of their identity."""
    late = np.zeros(len(changes), np.bool_)
    found = np.searchsorted(stored_at, place)
    has_row = np.flatnonzero(found < len(stored_at))
    has_row = has_row[stored_at[found[has_row]] == place[has_row]]
    rival = newest_stored[found[has_row]]
    pairs = [(ours[has_row], theirs[rival]) for ours, theirs in zip(changes.order, stored.order, strict=True)]
    late[has_row] = ~is_newer(pairs, len(has_row))
    return late
