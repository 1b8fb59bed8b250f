"""Do the rows of each identity follow each other in time? For tables with `write: history` (decision 0036)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan
from frazil.materialize.added_partitions import offsets_first
from frazil.materialize.dead_letter_checks import TYPE_HINT
from frazil.materialize.state import Standing
from frazil.model.identity_columns import column_at
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.modes.identified import value_at
from frazil.modes.order import as_order
from frazil.modes.validity import IS_CURRENT, NAMES, OPEN, TIMES, VALID_FROM, VALID_TO, begins, validity_columns
from frazil.modes.wanted import Numbers
from frazil.proof.sources import SourceColumns, source_columns
from frazil.proof.verification import NAMED, Check, Discrepancy, FindingKind
from frazil.verify.changed_columns import columns_of_other_types
from frazil.verify.first_offsets import OffsetsFirst
from frazil.verify.held_rows import LEAST, HeldRows, Rows
from frazil.verify.identities import HALVES, halves_of

MOST_HELD = 4_000_000
"""So many rows take 224 MB, and twice as much while they are sorted. An identity with more of them takes more."""

Flags = npt.NDArray[np.bool_]


def check_intervals(spec: TableSpec, at: Standing, *, without: Collection[str]) -> Check:
    """Check the rows of the head, except those in the files `without`, which cannot be read.

    Of a table with more rows than fit in memory, it reads the columns several times.
    """
    needed = (*NAMES, *(() if spec.order_by is None else (spec.order_by,)))
    lacking = {path for path in (*needed, *HALVES) if column_at(path, at.view.columns, {}) is None}
    if lacking:
        return Check("intervals", "0 rows", tuple(_lacking(at, sorted(lacking.intersection(needed)))))
    changed = tuple(_of_other_types(spec, at))
    if changed:
        return Check("intervals", "0 rows", changed)
    columns = source_columns(spec, at.state)
    numbers, first = at.state.partition_numbers, OffsetsFirst(offsets_first(spec, at))
    scan = TableScan(at.view, columns=list(dict.fromkeys((*HALVES, *columns.names, *needed))), without=without)
    wrong = _Wrong(at)
    count, keys, start = 0, 0, LEAST
    while True:
        held = HeldRows(start, most=MOST_HELD)
        for batch in scan.batches():
            held.add(interval_rows(batch, columns, numbers))
            if start == LEAST and spec.order_by is not None:
                elsewhere = _beginning_elsewhere(batch, columns, numbers, first, spec.order_by)
                wrong.add(f"{VALID_FROM} is not {spec.order_by}", *elsewhere)
        rows = _sorted(held.rows(columns=7))
        ordered = np.arange(rows.shape[1]) if spec.order_by is None else np.flatnonzero(first.has(*rows[4:6]))
        for what, which in (*_problems(rows), *_backwards(rows, ordered)):
            wrong.add(what, *rows[4:6, which])
        count += rows.shape[1]
        keys += int(_begins(rows).sum())
        if held.end is None:
            break
        start = held.end
    says = f"{plural(count, 'row')} of {plural(keys, 'key')}: intervals follow each other in the order of the records"
    return Check("intervals", says, tuple(wrong.findings()))


def _lacking(at: Standing, names: Sequence[str]) -> Iterator[Discrepancy]:
    if names:
        what = f"the table has no column {' and no column '.join(names)}: another tool dropped it"
        yield Discrepancy(FindingKind.UNPROVABLE, at.view.identifier, what)


def _of_other_types(spec: TableSpec, at: Standing) -> Iterator[Discrepancy]:
    yield from columns_of_other_types(at.view, validity_columns())
    found = None if spec.order_by is None else column_at(spec.order_by, at.view.columns, {})
    if found is not None and found[1].type not in TIMES:
        what = f"the column {found[0]}, from whose time on rows are valid, is {found[1].type}: {TYPE_HINT}"
        yield Discrepancy(FindingKind.UNPROVABLE, at.view.identifier, what)


class _Wrong:
    """The intervals that are wrong, of which the first ones are named."""

    def __init__(self, at: Standing) -> None:
        self._numbers = at.state.partition_numbers
        self._named: list[Discrepancy] = []
        self._count = 0

    def add(self, what: str, partition: Numbers, offset: Numbers) -> None:
        """Add rows, by the number of the partition, and the offset."""
        self._count += len(offset)
        first = slice(0, NAMED - len(self._named))
        for number, at in zip(partition[first].tolist(), offset[first].tolist(), strict=True):
            topic, at_partition = self._numbers.source(number)
            where = f"{topic}-{at_partition}@{at}"
            self._named.append(Discrepancy(FindingKind.WRONG_INTERVAL, where, what, (at,)))

    def findings(self) -> Iterator[Discrepancy]:
        yield from self._named
        if self._count > len(self._named):
            what = f"{self._count - len(self._named):,} more intervals are wrong"
            yield Discrepancy(FindingKind.WRONG_INTERVAL, "table", what)


def _beginning_elsewhere(
    batch: pa.RecordBatch, columns: SourceColumns, numbers: PartitionNumbers, first: OffsetsFirst, order_by: str
) -> Iterator[Numbers]:
    """Yield partition and offset of the rows from a record that are not valid from the time in their column on.

    Those that offsets order begin no earlier than the row before them.
    """
    begin, time = as_order(batch.column(VALID_FROM)), begins(value_at(batch, order_by))
    differs = pc.fill_null(pc.not_equal(begin, time), fill_value=True)
    places = pa.RecordBatch.from_arrays(columns.places(batch, numbers), names=["partition", "offset"])
    elsewhere = [column.to_numpy() for column in places.filter(differs).drop_null().columns]
    by_time = ~first.has(*elsewhere)
    yield from (column[by_time] for column in elsewhere)


def interval_rows(batch: pa.RecordBatch, columns: SourceColumns, numbers: PartitionNumbers) -> Rows:
    """Return the rows that have an identity and come from a record, as columns of longs.

    These are the halves of the identity, beginning, end, number of the partition, offset, and whether the row says to
    be current.
    """
    _, _, rows = halves_of(batch)
    values = pa.RecordBatch.from_arrays(
        [
            *(rows.column(half) for half in HALVES),
            as_order(rows.column(VALID_FROM)).fill_null(OPEN),
            as_order(rows.column(VALID_TO)).fill_null(OPEN),
            *columns.places(rows, numbers),
            rows.column(IS_CURRENT).cast(pa.int64()).fill_null(-1),
        ],
        names=[str(n) for n in range(7)],
    ).drop_null()
    return np.array([column.to_numpy() for column in values.columns], np.int64).reshape(7, -1)


def _sorted(rows: Rows) -> Rows:
    first, second, begin, _, partition, offset, _ = rows
    return rows[:, np.lexsort((offset, partition, begin, second, first))]


def _begins(rows: Rows) -> Flags:
    """Return which rows are the first ones of their identity."""
    begins = np.ones(rows.shape[1], np.bool_)
    begins[1:] = (np.diff(rows[0]) != 0) | (np.diff(rows[1]) != 0)
    return begins


def _problems(rows: Rows) -> Iterator[tuple[str, Numbers]]:
    """Yield what is wrong with rows, and the indexes of those."""
    _, _, begin, end, _, _, is_current = rows
    follows = ~_begins(rows)[1:]
    overlaps = follows & (begin[1:] < end[:-1])
    yield f"the row before it of its key is valid after its {VALID_FROM}", 1 + np.flatnonzero(overlaps)
    yield f"{VALID_FROM} is null", np.flatnonzero(begin == OPEN)
    yield f"{VALID_TO} is before {VALID_FROM}", np.flatnonzero(end < begin)
    yield f"{IS_CURRENT} does not say whether {VALID_TO} is null", np.flatnonzero(is_current != (end == OPEN))


def _backwards(rows: Rows, ordered: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Yield the rows that are out of order among those that offsets order, as `_problems` does."""
    _, _, _, _, partition, offset, _ = here = rows[:, ordered]
    goes_back = ~_begins(here)[1:] & (partition[1:] == partition[:-1]) & (offset[1:] < offset[:-1])
    yield "the row before it of its key is of a later record", ordered[1 + np.flatnonzero(goes_back)]
