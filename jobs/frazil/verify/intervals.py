"""Do the rows of each identity follow each other in time? For tables with `write: history` (decision 0036)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.state import Standing
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.modes.order import as_order
from frazil.modes.validity import IS_CURRENT, NAMES, OPEN, VALID_FROM, VALID_TO, validity_columns
from frazil.modes.wanted import Numbers
from frazil.proof.sources import SourceColumns, source_columns
from frazil.proof.verification import NAMED, Check, Discrepancy, FindingKind
from frazil.verify.changed_columns import columns_of_other_types
from frazil.verify.identities import HALVES, halves_of

MOST_HELD = 4_000_000
"""So many rows take 224 MB, and twice as much while they are sorted. An identity with more of them takes more."""

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
"""Rows by column: the halves of the identity, beginning, end, partition, offset, and whether it says to be current."""


def check_intervals(spec: TableSpec, at: Standing, *, without: Collection[str]) -> Check:
    """Check the rows of the head, except those in the files `without`, which cannot be read.

    Of a table with more rows than fit in memory, it reads the columns several times.
    """
    lacking = {*NAMES, *HALVES} - {column.name for column in at.view.columns}
    if lacking:
        return Check("intervals", "0 rows", tuple(_lacking(at, sorted(lacking.intersection(NAMES)))))
    changed = tuple(columns_of_other_types(at.view, validity_columns()))
    if changed:
        return Check("intervals", "0 rows", changed)
    columns = source_columns(spec, at.state)
    scan = TableScan(at.view, columns=[*HALVES, columns.partition, columns.offset, *NAMES], without=without)
    findings: list[Discrepancy] = []
    count, keys, wrong, start = 0, 0, 0, -(2**63)
    while True:
        held = _Held(start)
        for batch in scan.batches():
            held.add(_rows_of(batch, columns))
        rows = held.sorted()
        for what, which in _problems(rows):
            wrong += len(which)
            findings += [_finding(at, rows, index, what) for index in which[: NAMED - len(findings)].tolist()]
        count += rows.shape[1]
        keys += int(_begins(rows).sum())
        if held.end is None:
            break
        start = held.end
    if wrong > len(findings):
        what = f"{wrong - len(findings):,} more intervals are wrong"
        findings.append(Discrepancy(FindingKind.WRONG_INTERVAL, "table", what))
    says = f"{plural(count, 'row')} of {plural(keys, 'key')}: intervals follow each other in the order of the records"
    return Check("intervals", says, tuple(findings))


def _lacking(at: Standing, names: Sequence[str]) -> Iterator[Discrepancy]:
    if names:
        what = f"the table has no column {' and no column '.join(names)}: another tool dropped it"
        yield Discrepancy(FindingKind.UNPROVABLE, at.view.identifier, what)


class _Held:
    """Rows of the identities from `start` on, by their first half. `end` is None, or the first one that did not fit."""

    def __init__(self, start: int) -> None:
        self.end: int | None = None
        self._start = start
        self._most = MOST_HELD
        self._parts: list[Rows] = [np.empty((7, 0), np.int64)]
        self._count = 0

    def add(self, rows: Rows) -> None:
        first = rows[0]
        inside = (first >= self._start) & (True if self.end is None else first < self.end)
        self._parts.append(rows[:, inside])
        self._count += int(inside.sum())
        if self._count > self._most:
            self._make_room()

    def sorted(self) -> Rows:
        rows = np.concatenate(self._parts, axis=1)
        first, second, begin, _, partition, offset, _ = rows
        return rows[:, np.lexsort((offset, partition, begin, second, first))]

    def _make_room(self) -> None:
        """Give up the greater half of the identities. One that has all of the rows stays."""
        rows = np.concatenate(self._parts, axis=1)
        first = np.unique(rows[0])
        if len(first) == 1:
            self._most *= 2
        else:
            middle = np.partition(rows[0], rows.shape[1] // 2)[rows.shape[1] // 2]
            self.end = int(first[max(np.searchsorted(first, middle), 1)])
            rows = rows[:, rows[0] < self.end]
        self._parts, self._count = [rows], rows.shape[1]


def _rows_of(batch: pa.RecordBatch, columns: SourceColumns) -> Rows:
    """Return the rows that have an identity and come from a record."""
    _, _, rows = halves_of(batch)
    sources = [rows.column(name).cast(pa.int64()) for name in (columns.partition, columns.offset)]
    values = pa.RecordBatch.from_arrays(
        [
            *(rows.column(half) for half in HALVES),
            as_order(rows.column(VALID_FROM)).fill_null(OPEN),
            as_order(rows.column(VALID_TO)).fill_null(OPEN),
            *sources,
            rows.column(IS_CURRENT).cast(pa.int64()).fill_null(-1),
        ],
        names=[str(n) for n in range(7)],
    ).drop_null()
    return np.array([column.to_numpy() for column in values.columns], np.int64).reshape(7, -1)


def _begins(rows: Rows) -> Flags:
    """Return which rows are the first ones of their identity."""
    begins = np.ones(rows.shape[1], np.bool_)
    begins[1:] = (np.diff(rows[0]) != 0) | (np.diff(rows[1]) != 0)
    return begins


def _problems(rows: Rows) -> Iterator[tuple[str, Numbers]]:
    """Yield what is wrong with rows, and the indexes of those."""
    _, _, begin, end, partition, offset, is_current = rows
    follows = ~_begins(rows)[1:]
    overlaps = follows & (begin[1:] < end[:-1])
    goes_back = follows & (partition[1:] == partition[:-1]) & (offset[1:] < offset[:-1])
    yield f"the row before it of its key is valid after its {VALID_FROM}", 1 + np.flatnonzero(overlaps)
    yield "the row before it of its key is of a later record", 1 + np.flatnonzero(goes_back)
    yield f"{VALID_FROM} is null", np.flatnonzero(begin == OPEN)
    yield f"{VALID_TO} is before {VALID_FROM}", np.flatnonzero(end < begin)
    yield f"{IS_CURRENT} does not say whether {VALID_TO} is null", np.flatnonzero(is_current != (end == OPEN))


def _finding(at: Standing, rows: Rows, index: int, what: str) -> Discrepancy:
    _, _, _, _, partition, offset, _ = rows[:, index].tolist()
    where = f"{at.state.sources[0].topic}-{partition}@{offset}"
    return Discrepancy(FindingKind.WRONG_INTERVAL, where, what, (offset,))
