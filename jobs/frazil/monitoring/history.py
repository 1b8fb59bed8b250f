"""What the retained snapshots of a table say of its past: when batches came, how fresh they were, what they added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from frazil.maintain.figures import SMALL_PART, added_rows, forgets, sizes_of
from frazil.model.errors import CatalogError
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import COMPLETE_THROUGH, carries_state
from frazil.ports import Lake
from frazil.status import TABLES_AT_ONCE, garbage_collection_paused

ADDS = "append"
"""The operation of snapshots that add dead letters; others take old ones out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A published batch. `delay_seconds` is the time from the moment it completed the table through to its commit.

    It is None before the first backfill ends.
    """

    at: datetime
    rows: int
    delay_seconds: float | None


@dataclass(frozen=True, slots=True)
class Rejects:
    """The dead letters of a batch."""

    at: datetime
    records: int


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The past of a table, oldest first, and the bytes of its newest data files.

    `since` is the time of the oldest snapshot that is kept. An erasure is no batch.
    """

    batches: tuple[Batch, ...] = ()
    rejects: tuple[Rejects, ...] = ()
    file_sizes: tuple[int, ...] = ()
    small_bytes: int = 0
    since: datetime | None = None


def read_histories(
    lake: Lake, specs: Sequence[TableSpec], views: Mapping[str, TableView] | None = None
) -> Mapping[str, TableHistory]:
    """Return the history of each table by its name; one that cannot be read is left out.

    `views` are tables that were loaded a moment ago.
    """
    loaded = views or {}

    def read(spec: TableSpec) -> TableHistory | None:
        try:
            return read_history(lake, spec, loaded.get(spec.identifier))
        except CatalogError:
            return None

    with garbage_collection_paused(), ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="history") as pool:
        found = zip(specs, pool.map(read, specs), strict=True)
        return {spec.identifier: history for spec, history in found if history is not None}


def read_history(lake: Lake, spec: TableSpec, view: TableView | None = None) -> TableHistory:
    """Return the history of a table, empty if there is none. Raises CatalogError."""
    view = view or lake.load(spec.identifier)
    if view is None:
        return TableHistory()
    head = view.head_snapshot()
    snapshots = _oldest_first(view)
    return TableHistory(
        batches=tuple(_batch(each) for each in snapshots if carries_state(each) and not forgets(each)),
        rejects=_rejects(lake.load(spec.dead_letters_identifier)),
        file_sizes=() if head is None else sizes_of(head),
        small_bytes=spec.maintain.target_file_bytes // SMALL_PART,
        since=snapshots[0].committed_at if snapshots else None,
    )


def _oldest_first(view: TableView) -> Sequence[Snapshot]:
    return list(view.ancestry(view.head))[::-1]


def _batch(snapshot: Snapshot) -> Batch:
    through = snapshot.summary.get(COMPLETE_THROUGH)
    delay = None if through is None else (snapshot.committed_at - datetime.fromisoformat(through)).total_seconds()
    return Batch(snapshot.committed_at, added_rows(snapshot), None if delay is None else max(delay, 0.0))


def _rejects(view: TableView | None) -> tuple[Rejects, ...]:
    if view is None:
        return ()
    counted = ((each, each.figure("added-records")) for each in _oldest_first(view) if each.operation == ADDS)
    return tuple(Rejects(each.committed_at, count) for each, count in counted if count)
