"""Deletes that a rewind found remembered: they count as read by it, as the records do that it reads again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from frazil.materialize.group.complete import Places
from frazil.materialize.remember import renew
from frazil.materialize.state import Standing
from frazil.ports import Lake


def with_renewed_deletes(lake: Lake, built: Places, *, now: datetime) -> Places:
    """Return what was built, in which each delete is remembered for as long as a dead letter that was read again.

    Otherwise the table would forget the deletes that it began with before those letters are too old to be replayed.
    Raises StateLostError where the deletes cannot be read.
    """

    def of(at: Standing) -> Standing:
        remembered = renew(lake, at.view, at.state.remembered, now=now)
        return replace(at, state=replace(at.state, remembered=remembered))

    return {name: of(at) for name, at in built.items()}
