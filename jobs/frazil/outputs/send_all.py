"""All outputs of a table: they begin together, and a failure of one keeps none of the others from being sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from frazil.model.errors import FrazilError
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import TableView
from frazil.outputs.follow import FollowedOutput, without_gone
from frazil.outputs.ports import OutputClients
from frazil.ports import Lake

LOG = logging.getLogger(__name__)


def begin_all(
    lake: Lake, view: TableView, outputs: Sequence[OutputSpec], followed: Sequence[FollowedOutput]
) -> TableView:
    """Let the table record new outputs, before its next epoch, and keep no snapshots for those that are gone."""
    view = without_gone(lake, view, outputs)
    for each in followed:
        view = each.begin(lake, view)
    return view


def send_all(
    clients: Callable[[], OutputClients],
    lake: Lake,
    view: TableView,
    followed: Sequence[FollowedOutput],
    *,
    now: Callable[[], datetime],
) -> FrazilError | None:
    """Send to each output what it lacks. Return the first failure; the others are sent."""
    first: FrazilError | None = None
    for each in followed:
        named = {"table": view.identifier, "output": each.output.name, "topic": each.output.topic}
        try:
            sent = each.send(clients(), lake, view, now=now())
        except FrazilError as failure:
            first = first or failure
            LOG.warning("output_failed", extra=named | {"problem": failure.what, "hint": failure.hint})
        else:
            if sent:
                LOG.info("output_sent", extra=named | {"records": sent})
    return first
