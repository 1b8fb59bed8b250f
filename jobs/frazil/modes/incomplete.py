"""Rows of change events that take some values from the row before them (docs/decisions/0040)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from frazil.model.ingested import IncompleteRecords
from frazil.model.updates import RowUpdates, TakenColumns
from frazil.modes.wanted import Numbers, as_array, as_numbers

NO_ROW_TO_KEEP = "no_row_to_keep"
"""The reason under which change events are counted that keep a row which is not there."""

Place = tuple[int, int]
"""A row: the number of its data file, and its position in it."""
NO_FILE = -1
"""The number of the file of a record that takes the row of its identity out."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The records of a batch that no stored row is newer than, by identity and from the oldest on.

    By column: the number of the `record`, the number of its `identity`, its partition and offset, and its row. `stored`
    has the stored row of an identity, and `paths` the data files by their numbers. At the offsets `truncates`,
    ascending, all rows went.
    """

    record: Numbers
    identity: Numbers
    partition: Numbers
    offset: Numbers
    file: Numbers
    position: Numbers
    stored: Mapping[int, Place]
    paths: tuple[str, ...]
    truncates: Numbers = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Completed:
    """The `updates` that write the rows of some `records` anew, ascending.

    `unkept` are records that keep a row which is not there, ascending. `lacking` is the number of records whose missing
    values are null, because there was no row to take them from.
    """

    updates: RowUpdates | None = None
    records: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    unkept: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    lacking: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of an identity after some of its records: where it was written, and what it takes from other rows.

    `record` is None for a stored row.
    """

    record: int | None
    place: Place
    taken: tuple[tuple[tuple[str, ...], Place], ...] = ()


def complete(incomplete: Sequence[IncompleteRecords], chains: Chains) -> Completed:
    """Return what completes the newest row of each identity, and the records that have nothing to keep."""
    kinds = _merged(incomplete)
    kind = _kind_of_each(kinds, chains)
    chosen = np.flatnonzero(np.isin(chains.identity, chains.identity[kind >= 0]))
    rows, unkept, lacking = list[_Row](), list[int](), 0
    era = np.searchsorted(chains.truncates, chains.offset)
    columns = (chains.identity, chains.record, era, chains.file, chains.position, kind)
    records = zip(*(column[chosen].tolist() for column in columns), strict=True)
    for identity, chain in groupby(records, key=lambda each: each[0]):
        stored = chains.stored.get(identity)
        row = None if stored is None else _Row(None, stored)
        now = 0
        for _, record, era_of_record, file, position, number in chain:
            if era_of_record > now:
                row, now = None, era_of_record
            if file == NO_FILE:
                row = None
            elif number < 0:
                row = _Row(record, (file, position))
            elif row is None and kinds[number].needs_row:
                unkept.append(record)
            else:
                lacking += row is None and bool(kinds[number].columns)
                row = _Row(record, (file, position), () if row is None else _taking(row, kinds[number].columns))
        if now == len(chains.truncates) and row is not None and row.record is not None and row.taken:
            rows.append(row)
    rows.sort(key=lambda each: each.record or 0)
    records_of = np.array([each.record for each in rows], np.int64)
    updates = _updates(rows, chains.paths) if rows else None
    return Completed(updates, records_of, np.array(sorted(unkept), np.int64), lacking)


def _merged(incomplete: Sequence[IncompleteRecords]) -> list[IncompleteRecords]:
    """Return the same records, those of one kind together."""
    found: dict[tuple[int, tuple[str, ...], bool], list[Numbers]] = {}
    for each in incomplete:
        found.setdefault((each.partition, each.columns, each.needs_row), []).append(as_numbers(each.offset))
    return [IncompleteRecords(*kind, as_array(np.concatenate(offsets))) for kind, offsets in found.items()]


def _kind_of_each(kinds: Sequence[IncompleteRecords], chains: Chains) -> Numbers:
    """Return the number of the kind of each record, -1 for one that is complete."""
    kind = np.full(len(chains.record), -1, np.int64)
    for number, each in enumerate(kinds):
        kind[(chains.partition == each.partition) & np.isin(chains.offset, as_numbers(each.offset))] = number
    return kind


def _taking(row: _Row, columns: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], Place], ...]:
    """Return where a row takes these columns from that follows this one."""
    if not row.taken:
        return ((columns, row.place),) if columns else ()
    return tuple(_divided(row, columns))


def _divided(row: _Row, columns: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Place]]:
    left = dict.fromkeys(columns)
    for names, place in row.taken:
        here = tuple(name for name in names if name in left)
        left = {name: None for name in left if name not in here}
        if here:
            yield here, place
    if left:
        yield tuple(left), row.place


def _updates(rows: Sequence[_Row], paths: tuple[str, ...]) -> RowUpdates:
    taken: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
    for number, row in enumerate(rows):
        for columns, (file, position) in row.taken:
            taken.setdefault(columns, []).append((number, file, position))
    own = np.array([row.place for row in rows], np.int64)
    by_columns = tuple(_taken(names, found) for names, found in taken.items())
    return RowUpdates(paths, as_array(own[:, 0]), as_array(own[:, 1]), taken=by_columns)


def _taken(columns: tuple[str, ...], found: Sequence[tuple[int, int, int]]) -> TakenColumns:
    row, file, position = np.array(found, np.int64).T
    return TakenColumns(columns, as_array(row), as_array(file), as_array(position))
