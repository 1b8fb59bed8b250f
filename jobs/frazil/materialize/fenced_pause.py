"""A run pauses its table only while the table stands where the run saw it."""

from __future__ import annotations

from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.pausing import PAUSED_PROPERTY
from frazil.materialize.state import standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import FencedError, FrazilError
from frazil.model.progress import TableState
from frazil.model.spec import TableSpec
from frazil.ports import CommitRejectedError, CommitUnknownError, Lake


def pause_at(lake: Lake, spec: TableSpec, planned: TableState, reason: str, *, because: FrazilError) -> None:
    """Pause the table for `reason`, a value of the property.

    A table that was rolled back meanwhile is left alone: the next batch judges it anew. Raises FencedError where
    another process has published since, so that what it did is not paused for what this one found before.
    """
    failure: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        view = loaded(lake, spec.identifier)
        if view.properties.get(PAUSED_PROPERTY) == reason:
            return
        now = standing(view, pipeline=spec.pipeline).state
        if (now.epoch, now.batch_id) != (planned.epoch, planned.batch_id):
            _check_fenced(spec, planned, now, because)
            return
        try:
            lake.set_property_at(view, PAUSED_PROPERTY, reason)
        except (CommitRejectedError, CommitUnknownError) as failed:
            failure = failed
        else:
            return
    raise given_up(spec.identifier, "pause", failure) from failure


def _check_fenced(spec: TableSpec, planned: TableState, now: TableState, because: FrazilError) -> None:
    if now.epoch >= planned.epoch:
        raise FencedError(
            f"{spec.identifier}: another process published epoch {now.epoch} (writer {now.writer}) after this one had"
            f" planned on epoch {planned.epoch}; the table was not paused for: {because.what}",
            hint="no record is lost or duplicated: stop this process and keep the other",
        ) from because
