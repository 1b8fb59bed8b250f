"""Choose which rows of which snapshot an export writes next: all of a period, those that came late, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

from frazil.adapters.iceberg.pinned_scan import Bounds, PinnedScan, type_at
from frazil.exports.editions import INCREMENTS, Edition
from frazil.exports.manifest import Contents, Manifest
from frazil.exports.positions import Positions, Standpoint, standpoint
from frazil.model.errors import ExportError, Misuse
from frazil.model.exports import ExportSpec, ExportWindow, Period
from frazil.model.snapshot import TableView
from frazil.model.summary import is_rewrite

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = ("timestamptz", "timestamp")


@dataclass(frozen=True, slots=True)
class Since:
    """Finds the rows that an edition before does not have: those of records from `positions` on."""

    positions: Positions
    now: Standpoint
    snapshot_id: int

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.now.columns.offset, self.positions.lowest_late(self.now.positions))

    def left_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that came later."""
        return rows.filter(self.positions.late(self.now.columns, rows))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one edition. `at` is the state of the table, None for one that Frazil does not write."""

    spec: ExportSpec
    edition: Edition
    view: TableView
    snapshot_id: int
    contents: Contents
    period: Period | None
    at: Standpoint | None
    since: Since | None = None

    @property
    def scan(self) -> PinnedScan:
        """The scan of the rows, with the columns by which `left` decides behind those of the export.

        Raises Misuse if the table lacks a column of the spec.
        """
        named = self.spec.columns
        more = () if self.since is None or not named else self.since.now.columns.names
        return self._scan((*named, *(name for name in more if name not in named)))

    def left(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that the edition has, with its columns."""
        chosen = rows if self.since is None else self.since.left_of(rows)
        return chosen.select(self.spec.columns) if self.spec.columns else chosen

    def some_are_late(self) -> bool:
        """Return whether any row came later: only the columns that say so are read."""
        if self.since is None:
            return True
        scan = self._scan(self.since.now.columns.names)
        return any(self.since.left_of(rows).num_rows for rows in _all(scan))

    def _scan(self, columns: Sequence[str]) -> PinnedScan:
        bounds = [] if self.period is None else [_bounds(self)]
        since = self.since
        return PinnedScan(
            self.view,
            self.snapshot_id,
            columns=columns,
            where=self.spec.where,
            bounds=bounds if since is None else [*bounds, since.bounds],
            unlike=() if since is None else (since.snapshot_id,),
        )


def choose(
    spec: ExportSpec,
    view: TableView,
    edition: Edition,
    finished: Sequence[Manifest],
    period: Period | None,
    *,
    begun: int | None,
) -> Rows | None:
    """Return the rows of the next edition, or None if there are no other rows than those that are finished.

    It is of the snapshot from which a run has `begun` to write it, or of the table's newest one. Raises ExportError or
    Misuse.
    """
    snapshot_id = view.head if begun is None else begun
    if snapshot_id is None:
        raise Misuse(f"the table {view.identifier} has no snapshot", hint="run `frazil materialize` first")
    at = standpoint(view, snapshot_id)
    before = finished[-1] if finished else None
    rows = Rows(spec, edition, view, snapshot_id, "all rows" if period else "new rows", period, at)
    if period is None:
        return _incremental(rows, before)
    if before is None:
        return rows
    return _correction(rows, before)


def check_columns(spec: ExportSpec, view: TableView, period: Period | None) -> None:
    """Raise Misuse or ExportError if the table's newest snapshot lacks what the spec names, or is not what it needs."""
    if view.head is not None:
        label = INCREMENTS if period is None else period.label
        rows = choose(spec, view, Edition(spec.name, label, 0), (), period, begun=None)
        assert rows is not None, "no edition is finished"  # noqa: S101 - narrows the type
        rows.scan  # noqa: B018 - finds the columns


def _correction(rows: Rows, before: Manifest) -> Rows | None:
    if _has_same_rows(rows, before):
        return None
    since = _since(rows, before)
    if since is None or not _counts_agree(rows, since):
        return _with(rows, "all rows again")
    late = _with(rows, "late rows", since)
    return late if late.some_are_late() else None


def _incremental(rows: Rows, before: Manifest | None) -> Rows | None:
    if rows.at is None or not rows.at.positions.appends:
        raise ExportError(
            f"the export {rows.spec.name} is incremental, and {rows.spec.table} is no table that Frazil fills with"
            " write: append: its rows may change",
            hint="give the export a `window` instead of `incremental`: it is then exported anew after each change",
        )
    if before is None or _has_same_rows(rows, before):
        return rows if before is None else None
    since = _since(rows, before)
    if since is None or not _counts_agree(rows, since):
        raise ExportError(
            f"the export {rows.spec.name} cannot continue: other rows of {rows.spec.table} than the newest changed"
            f" since its edition {before.number} (snapshot {before.snapshot_id}): by a rebuild, a replay of dead"
            " letters, a topic that was made again, or another writer",
            hint="give the export another name: it begins with all rows",
        )
    late = _with(rows, "new rows", since)
    return late if late.some_are_late() else None


def _with(rows: Rows, contents: Contents, since: Since | None = None) -> Rows:
    return Rows(rows.spec, rows.edition, rows.view, rows.snapshot_id, contents, rows.period, rows.at, since)


def _has_same_rows(rows: Rows, before: Manifest) -> bool:
    if before.table_uuid != rows.view.uuid:
        return False
    for snapshot in rows.view.ancestry(rows.snapshot_id):
        if snapshot.id == before.snapshot_id:
            return True
        if not is_rewrite(snapshot):
            break
    return rows.at is not None and before.positions is not None and before.positions.same_rows(rows.at.positions)


def _since(rows: Rows, before: Manifest) -> Since | None:
    """Return how rows that came later are found, or None if positions cannot find them."""
    if rows.at is None or before.positions is None or before.table_uuid != rows.view.uuid:
        return None
    if not before.positions.continued_by(rows.at.positions):
        return None
    return Since(before.positions, rows.at, before.snapshot_id)


def _counts_agree(rows: Rows, since: Since) -> bool:
    """Return whether later offsets are all that was added: replayed dead letters have earlier ones."""
    scan = PinnedScan(
        rows.view,
        rows.snapshot_id,
        columns=since.now.columns.names,
        bounds=[since.bounds],
        unlike=(since.snapshot_id,),
    )
    found: int = sum(since.left_of(each).num_rows for each in _all(scan))
    return found == since.now.positions.rows - since.positions.rows


def _all(scan: PinnedScan) -> Iterator[pa.RecordBatch]:
    return (rows for file in range(scan.files) for rows in scan.rows_of(file))


def _bounds(rows: Rows) -> Bounds:
    """Return the bounds of the period in the unit of its column. Raises Misuse for a column that is no timestamp."""
    window, period = rows.spec.window, rows.period
    assert window is not None and period is not None, "this export has a window"  # noqa: S101 - narrows the types
    kind = type_at(rows.view, rows.snapshot_id, window.column)
    if kind not in TIMES:
        raise Misuse(
            f"the column {window.column} of {rows.view.identifier} has the type {kind}, expected a timestamp",
            hint=f"name a column of timestamps in `window` of {rows.spec.source_file}, such as kafka_timestamp",
        )
    return Bounds(window.column, *(_micros(each, kind, window) for each in (period.start, period.end)))


def _micros(at: datetime, kind: str, window: ExportWindow) -> int:
    """Return microseconds since 1970: a timestamp without a time zone has the wall time of the window's."""
    if kind == "timestamp":
        at = at.astimezone(ZoneInfo(window.time_zone)).replace(tzinfo=UTC)
    return (at - EPOCH) // timedelta(microseconds=1)
