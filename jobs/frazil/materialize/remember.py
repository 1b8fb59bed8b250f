"""The deletes that a table remembers, in a file of its own that the state refers to (docs/decisions/0036)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from frazil.model.errors import StateLostError
from frazil.model.remembered import RememberedDeletes
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import checksum
from frazil.modes import memory
from frazil.modes.memory import Deletes, Memory, packed, unpacked
from frazil.ports import Lake

LOG = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def note_on_deletes(spec: TableSpec) -> str | None:
    """Return the limit of what a table remembers where rows are deleted, or None for a table without one."""
    if spec.write == "deduplicate":
        return (
            "an identity is known as long as its row is there: after retention, an erasure or another engine has"
            " deleted the row, a later record of the identity becomes a row again"
        )
    if not spec.remembers_deletes:
        return None
    days = f"{spec.delete_memory / timedelta(days=1):g} days"
    effect = "is valid until the next row of its key" if spec.keeps_history else "brings its key back"
    return (
        f"deletes are remembered for {days}, at most {memory.MOST:,} of them: a record that is older than a delete and"
        f" comes later than this {effect} (delete_memory)"
    )


def recall(lake: Lake, view: TableView, before: RememberedDeletes | None, *, now: datetime, keep: timedelta) -> Memory:
    """Return the deletes that are not older than `keep`. Raises StateLostError where their file is not what it was."""
    at = (now - _EPOCH) // _MICROSECOND
    if before is None:
        return Memory(at=at)
    stored = read_deletes(lake, view, before)
    known = [] if before.forgotten_until is None else [(before.forgotten_until - _EPOCH) // _MICROSECOND]
    forgotten = [*known, *stored.at[stored.at < at - keep // _MICROSECOND].tolist()]
    return Memory(stored.since(at - keep // _MICROSECOND), at, max(forgotten, default=None))


def read_deletes(lake: Lake, view: TableView, remembered: RememberedDeletes) -> Deletes:
    """Raise CatalogError where the file cannot be read, and StateLostError where it is not what it was."""
    blob = lake.read_blob(view, remembered.file.path)
    found = "none" if blob is None else f"{len(blob)} bytes with checksum {checksum(blob)}"
    if blob is not None and checksum(blob) == remembered.checksum:
        return unpacked(blob)
    raise StateLostError(
        f"{view.identifier}: the {remembered.count:,} deletes that the table remembers are damaged or missing: expected"
        f" content with checksum {remembered.checksum} in {remembered.file.path}, found {found}",
        hint="restore that file from a backup or an earlier version of the object, or roll `main` back to an older"
        " Frazil snapshot: docs/operate.md, a damaged state",
    )


def remember(
    lake: Lake, view: TableView, before: RememberedDeletes | None, recalled: Memory, deletes: Deletes | None
) -> RememberedDeletes | None:
    """Write the deletes to a new file, if there are new ones; `deletes` is None if they are those of `before`.

    `recalled` is what `recall` returned of `before`.
    """
    if deletes is None:
        return before
    kept = deletes.latest(memory.MOST)
    left_out = len(deletes) - len(kept)
    if left_out:
        about = f"{left_out:,} deletes are forgotten early: the table remembers {len(kept):,}, and no more"
        LOG.warning("too_many_deletes", extra={"table": view.identifier, "about": about})
    blob = packed(kept)
    return RememberedDeletes(
        file=lake.write_blob(view, blob),
        checksum=checksum(blob),
        count=len(kept),
        since=_time(int(kept.at.min())),
        forgotten=left_out + (0 if before is None else before.forgotten),
        forgotten_until=None if recalled.forgotten_until is None else _time(recalled.forgotten_until),
    )


def renew(lake: Lake, view: TableView, before: RememberedDeletes | None, *, now: datetime) -> RememberedDeletes | None:
    """Write the deletes to a new file, as if a batch at this time had read them. Raises as `read_deletes` does."""
    if before is None:
        return None
    deletes = read_deletes(lake, view, before)
    at = (now - _EPOCH) // _MICROSECOND
    blob = packed(replace(deletes, at=np.full(len(deletes), at, np.int64)))
    return replace(before, file=lake.write_blob(view, blob), checksum=checksum(blob), since=now)


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
