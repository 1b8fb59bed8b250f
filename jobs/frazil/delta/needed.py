"""Find the data files that readers of a Delta log need, so that nothing deletes them, and those that it has left."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import dropwhile, takewhile

from frazil.ports import DeltaLogs

DISORDER = timedelta(hours=1)
"""How much earlier than the time of an older version that of a newer one may be: its file may be from an attempt before
the one that succeeded, or the storage's clock was set back.
"""


def files_needed(logs: DeltaLogs, location: str, *, since: datetime) -> frozenset[str]:
    """Return the paths of all data files that a Delta version needs which was the newest at `since` or later.

    These are the files of the newest version and all that were removed at `since` or later. With them, readers can
    read every version of that time: the newest one, one that they opened before, and those that they travel to.
    The paths are relative to `location`, or absolute where a log says so; they are decoded, as Iceberg has them.
    Empty if the table has no log. A log that nothing updates any more counts as well, until its folder is deleted.

    Versions are committed one after another, so a version was committed at `since` or later if it or any older one has
    such a time, whatever newer ones have. Times are the storage's unless a writer's is later, so a writer whose clock
    is behind does not end the search, which reads the versions since an hour before `since`.

    Expiry and orphan clean-up delete none of these files, and nothing at all if this raises CatalogError.
    """
    log = logs.read(location)
    if log is None:
        return frozenset()
    versions = takewhile(
        lambda version: version.committed_at >= since - DISORDER, logs.removals(location, newest=log.version)
    )
    recent = dropwhile(lambda version: version.committed_at < since, reversed(list(versions)))
    return frozenset({file.path for file in log.files} | {path for version in recent for path in version.paths})


def files_left(logs: DeltaLogs, location: str, *, since: datetime) -> frozenset[str]:
    """Return the paths of all files that the log has removed and that no version needs which was the newest at `since`.

    Most of them are gone. The others were still needed when their snapshots expired, or could not be deleted then.
    Snapshots may have some of them. Empty if the table has no log.
    """
    removed = logs.removed(location)
    return removed - files_needed(logs, location, since=since) if removed else removed
