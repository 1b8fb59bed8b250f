"""Find the data files that readers of a Delta log need, so that nothing deletes them."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile

from frazil.ports import DeltaLogs


def files_needed(logs: DeltaLogs, location: str, *, since: datetime) -> frozenset[str]:
    """Return the paths of all data files that a Delta version needs which was the newest at `since` or later.

    These are the files of the newest version and all that were removed at `since` or later. With them, readers can
    read every version of that time: the newest one, one that they opened before, and those that they travel to.
    The paths are relative to `location`, or absolute where a log says so; they are decoded, as Iceberg has them.
    Empty if the table has no log. A log that nothing updates any more counts as well, until its folder is deleted.

    Expiry and orphan clean-up delete none of these files, and nothing at all if this raises CatalogError.
    """
    log = logs.read(location)
    if log is None:
        return frozenset()
    recent = takewhile(lambda version: version.committed_at >= since, logs.removals(location, newest=log.version))
    return frozenset({file.path for file in log.files} | {path for version in recent for path in version.paths})
