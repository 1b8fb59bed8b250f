"""The part of announce for readers of Delta: the log beside the table gets a version for the table's head.

No failure here fails the batch, whose rows are published: it is logged, and the next run repairs the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from frazil.delta.follow import snapshots_to_log
from frazil.delta.standing import next_version
from frazil.materialize.branches import ATTEMPTS
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.delta import (
    DELTA_TAG,
    NEXT_DELTA_TAG,
    Announced,
    LogFailed,
    LogIsCurrent,
    LogWrite,
    LogWritten,
    Withheld,
    log_after,
)
from frazil.model.errors import CommitError, CommitRejectedError, CommitUnknownError, FrazilError
from frazil.model.snapshot import TableView
from frazil.ports import DeltaLogs, Lake

LOG = logging.getLogger(__name__)

CHECK_EVERY = timedelta(minutes=5)
"""How often a running process reads the log of a table that does not change: others may have written to it."""


@dataclass(slots=True)
class LogProgress:
    """The progress of a table's Delta log. `version` is the newest that describes the table's head."""

    version: int | None = None
    _checked: tuple[int | None, str] | None = None
    _checked_at: datetime | None = None

    def is_due(self, view: TableView, *, now: datetime) -> bool:
        """Return whether the head or the schema has changed since the last check, or the check was long ago."""
        seen = (view.head, view.schema_json)
        return seen != self._checked or self._checked_at is None or now - self._checked_at >= CHECK_EVERY

    def record(self, view: TableView, announced: Announced | None, *, now: datetime) -> None:
        """Record the outcome of a check; after a failure the check stays due."""
        if isinstance(announced, LogFailed):
            return
        if announced is not None and announced.version is not None:
            self.version = announced.version
        self._checked, self._checked_at = (view.head, view.schema_json), now


def announce_delta(lake: Lake, open_logs: Callable[[], DeltaLogs], view: TableView) -> Announced | None:
    """Bring the table's Delta log to its head. None where the table has no snapshot. Raises nothing."""
    try:
        return _announced(lake, open_logs(), view)
    except CommitError as problem:
        return LogFailed(problem.what, "look for other writers of the log or the table; the next run tries again")
    except FrazilError as problem:
        return LogFailed(problem.what, problem.hint)
    except Exception as problem:
        LOG.exception("unforeseen", extra={"table": view.identifier})
        return LogFailed(f"{type(problem).__name__}: {problem}", "if it happens again, report it with the stack trace")


def _announced(lake: Lake, logs: DeltaLogs, view: TableView) -> Announced | None:
    """Bring the log to the head, twice at most; after a rejected attempt a current log counts as written."""
    try:
        return _brought_to_head(lake, logs, view)
    except CommitRejectedError:
        announced = _brought_to_head(lake, logs, view)
    if isinstance(announced, LogIsCurrent):
        return LogWritten(announced.version, announced.snapshot_id)
    return announced


def _brought_to_head(lake: Lake, logs: DeltaLogs, view: TableView) -> Announced | None:
    """Try once to write the log. Raises CommitRejectedError if another writer wrote it first.

    The log is read before the table, so its snapshot is never later than the announced one.
    """
    log = logs.read(view.location)
    view = lake.load(view.identifier) or view
    written: LogWritten | None = None
    settled: LogIsCurrent | Withheld | None = None
    for at in snapshots_to_log(view, log):
        plan = next_version(at, log, logs)
        if plan is None or isinstance(plan, LogIsCurrent | Withheld):
            settled = _with_version(plan, settled)
            continue
        view = view if written is None else lake.load(view.identifier) or view
        _write(lake, logs, view, plan)
        written, log = LogWritten(plan.version, plan.snapshot_id), log_after(log, plan)
    if written is None:
        _keep(lake, view, None if log is None else log.snapshot_id)
    return written or settled


def _with_version(
    plan: LogIsCurrent | Withheld | None, older: LogIsCurrent | Withheld | None
) -> LogIsCurrent | Withheld | None:
    """Return the plan; where it is withheld, with the log's version if that is current with an older snapshot."""
    return replace(plan, version=older.version) if isinstance(plan, Withheld) and older is not None else plan


def _write(lake: Lake, logs: DeltaLogs, view: TableView, write: LogWrite) -> None:
    view = _held(lake, view, write.snapshot_id)
    logs.write(view.location, write)
    _keep(lake, view, write.snapshot_id)


def _held(lake: Lake, view: TableView, snapshot_id: int) -> TableView:
    """Tag the snapshot so that it cannot expire; the snapshot of the last batch has a tag already."""
    if snapshot_id in (view.tags.get(CHECKPOINT_TAG), view.tags.get(NEXT_DELTA_TAG)):
        return view
    lake.move_tags(view, put={NEXT_DELTA_TAG: snapshot_id})
    return lake.load(view.identifier) or view


def _keep(lake: Lake, view: TableView, snapshot_id: int | None) -> None:
    """Move the tag to the snapshot of the log's newest version. The next run repeats a failed move."""
    try:
        _move_tag(lake, view, snapshot_id)
    except (FrazilError, CommitRejectedError, CommitUnknownError) as problem:
        LOG.warning("delta_tag_not_moved", extra={"table": view.identifier, "problem": str(problem)})


def _move_tag(lake: Lake, view: TableView, snapshot_id: int | None) -> None:
    """Move the tag unless another process has moved it, which then announced a later snapshot."""
    seen = view.tags.get(DELTA_TAG)
    for _ in range(ATTEMPTS):
        left = [NEXT_DELTA_TAG] if NEXT_DELTA_TAG in view.tags else []
        there = view.tags.get(DELTA_TAG)
        if snapshot_id is None or snapshot_id not in view.snapshots or there != seen:
            break
        if there == snapshot_id and not left:
            break
        try:
            lake.move_tags(view, put={DELTA_TAG: snapshot_id}, drop=left)
            break
        except CommitRejectedError:
            view = lake.load(view.identifier) or view


def drop_delta_tags(lake: Lake, view: TableView) -> None:
    """Drop the tags of a table that is not offered as Delta any more. The next run repeats a failed attempt."""
    drop = [name for name in (DELTA_TAG, NEXT_DELTA_TAG) if name in view.tags]
    if not drop:
        return
    try:
        lake.move_tags(view, put={}, drop=drop)
    except (FrazilError, CommitRejectedError, CommitUnknownError) as problem:
        LOG.warning("delta_tag_not_moved", extra={"table": view.identifier, "problem": str(problem)})
