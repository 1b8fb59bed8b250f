"""Has each row the identity of its key, and no two rows the same one? For tables that follow keys (decision 0036).

In a history, an identity has many rows; `intervals.py` checks these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import TableScan, arrow_schema_of
from frazil.formats.arrow import project
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.state import Standing
from frazil.model.columns import retyped
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.modes.identified import IdentityPaths
from frazil.modes.identity import COLUMNS, FIRST, SECOND
from frazil.modes.wanted import Wanted
from frazil.proof.sources import SourceColumns, add_batch, progress_by_source, source_columns
from frazil.proof.tally import Tallies, Tally
from frazil.proof.verification import NAMED, Check, Discrepancy, FindingKind, first_named, listed_offsets
from frazil.verify.by_identity import Combined, Identity, Numbers, counted
from frazil.verify.changed_columns import columns_of_other_types
from frazil.verify.quoting import Quoting
from frazil.verify.scan import Watch
from frazil.verify.spilled import SpilledIdentities

HALVES = (FIRST, SECOND)


def check_identities(spec: TableSpec, at: Standing, *, without: Collection[str], watch: Watch) -> Check:
    """Check the rows of the head, except those in the files `without`, which cannot be read.

    Identities are counted in parts that fit in memory, after a temporary file has divided them. If this has no room,
    the two columns of the table are read once for each part.
    """
    key = IdentityPaths.found(spec.identity_paths, arrow_schema_of(at.view), former_names_of(at.view.properties))
    lacking = {*HALVES} - {column.name for column in at.view.columns}
    if key is None or lacking or retyped(COLUMNS, tuple(at.view.columns)):
        absent = sorted(lacking) if key is not None else [*sorted(lacking), *spec.identity_paths]
        return Check("identities", "0 rows", tuple(_unprovable(at, absent)))
    columns = source_columns(spec, at.state)
    judged = _Judged.of_none(at, columns, key)
    rows = TableScan(at.view, columns=list(dict.fromkeys([*HALVES, *key.tops, *columns.names])), without=without)
    doubled, done = _Doubled(), 0
    with SpilledIdentities(rows=0 if spec.keeps_history else rows.rows) as spilled:
        for batch in rows.slices():
            judged.add(batch)
            if not spec.keeps_history:
                spilled.add(*halves_of(batch)[:2])
            done += batch.num_rows
            watch("identities", done, rows.rows)
        for found in _counted(spilled, at, without):
            doubled.add(found)
    findings = (*judged.findings(), *_doubled_findings(doubled, rows, columns, key, Quoting(not spec.masked)))
    alone = "" if spec.keeps_history else ", and no other row has"
    identity = ", ".join(spec.identity) or "its key"
    return Check("identities", f"{plural(done, 'row')}: each has the identity of {identity}{alone}", findings)


def halves_of(rows: pa.RecordBatch) -> tuple[Numbers, Numbers, pa.RecordBatch]:
    """Return the two halves of the rows that have an identity, and these rows."""
    if rows.column(FIRST).null_count or rows.column(SECOND).null_count:
        rows = rows.filter(pc.and_(*(rows.column(half).is_valid() for half in HALVES)))
    first, second = (rows.column(half).to_numpy() for half in HALVES)
    return first, second, rows


def _unprovable(at: Standing, lacking: Sequence[str]) -> Iterator[Discrepancy]:
    """Yield what another writer did to the columns. The key has a column once its schema is known."""
    if lacking and any(progress.live_rows for progress in progress_by_source(at.state).values()):
        what = f"the table has no column {' and no column '.join(lacking)}: rows have no identity without it"
        yield Discrepancy(FindingKind.UNPROVABLE, at.view.identifier, what)
    yield from columns_of_other_types(at.view, COLUMNS)


def _counted(spilled: SpilledIdentities, at: Standing, without: Collection[str]) -> Iterator[Combined]:
    """Yield how many rows each identity has, in ascending order of the identities."""
    if spilled.finish():
        for number in range(spilled.parts):
            yield from counted(partial(spilled.part, number))
        return
    table = TableScan(at.view, columns=HALVES, without=without)
    yield from counted(lambda: (halves_of(rows)[:2] for rows in table.batches()))


@dataclass(slots=True)
class _Judged:
    """Rows of records without an identity, and with another one than that of their key."""

    columns: SourceColumns
    key: IdentityPaths
    key_schema: pa.Schema
    lacking: Tallies
    other: Tallies

    @classmethod
    def of_none(cls, at: Standing, columns: SourceColumns, key: IdentityPaths) -> _Judged:
        lacking, other = (
            Tallies({source: Tally(p.origin, p.next) for source, p in progress_by_source(at.state).items()})
            for _ in range(2)
        )
        return cls(columns, key, pa.schema([arrow_schema_of(at.view).field(name) for name in key.tops]), lacking, other)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that others inserted without a source may lack an identity, too."""
        stored = [rows.column(half) for half in HALVES]
        expected = self.key.of(project(rows.select(self.key.tops), self.key_schema)).columns
        lacks = pc.or_(*(half.is_null() for half in stored))
        equal = [pc.fill_null(pc.equal(one, other), False) for one, other in zip(stored, expected, strict=True)]
        differs = pc.and_(pc.invert(pc.and_(*equal)), pc.invert(lacks))
        for tallies, which in ((self.lacking, lacks), (self.other, differs)):
            if which.true_count:
                add_batch(tallies, self.columns, rows.filter(which))

    def findings(self) -> Iterator[Discrepancy]:
        for kind, tallies, what in (
            (FindingKind.NO_IDENTITY, self.lacking, "without an identity"),
            (FindingKind.CHANGED_IDENTITY, self.other, f"with another identity than that of {self.key.text}"),
        ):
            for (topic, partition), tally in tallies.by_source.items():
                if tally.rows:
                    named = listed_offsets(offsets := first_named(tally.seen), len(tally.seen))
                    says = f"{plural(tally.rows, 'row')} {what}: {named}"
                    yield Discrepancy(kind, f"{topic}-{partition}", says, offsets)


@dataclass(slots=True)
class _Doubled:
    """Identities with several rows: how many there are, and the first ones with their number of rows."""

    count: int = 0
    named: dict[Identity, int] = field(default_factory=dict)

    def add(self, found: Combined) -> None:
        (number,) = found.numbers
        several = np.flatnonzero(number > 1)
        self.count += len(several)
        some = several[: NAMED - len(self.named)]
        identities_ = zip(found.first[some].tolist(), found.second[some].tolist(), strict=True)
        self.named |= dict(zip(identities_, number[some].tolist(), strict=True))


def _doubled_findings(
    doubled: _Doubled, rows: TableScan, columns: SourceColumns, key: IdentityPaths, quoting: Quoting
) -> Iterator[Discrepancy]:
    """Read the rows again, to name those of the first few identities."""
    if not doubled.count:
        return
    first, second = (np.array(half, np.int64) for half in zip(*doubled.named, strict=True))
    wanted, found = Wanted(first, second), [_RowsOfOne() for _ in doubled.named]
    for batch in rows.slices():
        *halves, whole = halves_of(batch)
        places = wanted.find(*halves)
        for index in np.flatnonzero(places >= 0).tolist():
            found[places[index]].add(
                [value[index] for value in key.values(whole)], whole.column(columns.offset)[index].as_py()
            )
    for count, each in zip(doubled.named.values(), found, strict=True):
        what = f"{count:,} rows of one identity: {listed_offsets(each.offsets, count)}"
        where = ", ".join(f"{path} {quoting.value(value)}" for path, value in zip(key.paths, each.key, strict=True))
        yield Discrepancy(FindingKind.DOUBLED_IDENTITY, where, what, tuple(each.offsets))
    if doubled.count > len(found):
        what = f"{doubled.count - len(found):,} more identities have several rows"
        yield Discrepancy(FindingKind.DOUBLED_IDENTITY, "table", what)


@dataclass(slots=True)
class _RowsOfOne:
    """The rows of one identity: its values, and the offsets of the first few rows."""

    key: Sequence[pa.Scalar] = ()
    offsets: Sequence[int] = ()

    def add(self, key: Sequence[pa.Scalar], offset: int | None) -> None:
        self.key = key
        if offset is not None and len(self.offsets) < NAMED:
            self.offsets = (*self.offsets, offset)
