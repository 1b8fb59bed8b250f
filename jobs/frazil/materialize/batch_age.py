"""A batch that took too long is not published: orphan clean-up may have deleted its files (docs/decisions/0058)."""

from __future__ import annotations

import logging
from datetime import timedelta

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.verdicts import OvertakenError

LOG = logging.getLogger(__name__)

OLDEST = timedelta(days=1)
"""The age at which a batch is refused. Orphan files that are deleted have thrice this age at least."""


class StaleBatchError(OvertakenError):
    """The batch began too long ago, as when its process was stopped: it is planned again."""


def is_old(began: float) -> bool:
    """Return whether files may be gone that were written since, if no branch holds them."""
    return elapsed_seconds() - began > OLDEST.total_seconds()


def refuse_old(table: str, began: float | None) -> None:
    """Raise StaleBatchError if the files of a batch may be too old. `began` is `elapsed_seconds()` before the first.

    Branches of the batch hold its files by now. If these were younger then, no clean-up can have deleted them.
    """
    if began is not None and is_old(began):
        seconds = elapsed_seconds() - began
        LOG.warning("batch_too_old", extra={"table": table, "hours": round(seconds / 3600, 1)})
        raise StaleBatchError(f"{table}: the batch began {seconds / 3600:.1f} hours ago")
