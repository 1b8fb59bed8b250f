"""Send the epochs of a table to its output topics. A failure never fails a batch: its rows are already visible."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from frazil.materialize.clients import Clients
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.outputs.follow import FollowedOutput, without_gone

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Sending:
    """The outputs of one table in one process. `failure` is what keeps the first of them from being sent now."""

    spec: TableSpec
    outputs: tuple[FollowedOutput, ...] = field(init=False)
    failure: FrazilError | None = None

    def __post_init__(self) -> None:
        self.outputs = tuple(FollowedOutput(self.spec, output) for output in self.spec.outputs)

    def begin(self, clients: Clients, view: TableView) -> TableView:
        """Let the table record new outputs, before its next epoch, and keep no snapshots for those that are gone."""
        view = without_gone(clients.lake, view, self.spec.outputs)
        for output in self.outputs:
            view = output.begin(clients.lake, view)
        return view

    def send(self, clients: Clients, view: TableView) -> None:
        """Send to each output what it lacks. A failure of one is kept for the report, and the others are sent."""
        self.failure = None
        for each in self.outputs:
            try:
                sent = each.send(clients.outputs(), clients.lake, view, now=clients.now())
            except FrazilError as failure:
                self.failure = self.failure or failure
                LOG.warning("output_failed", extra=self._named(each) | {"problem": failure.what, "hint": failure.hint})
            else:
                if sent:
                    LOG.info("output_sent", extra=self._named(each) | {"records": sent})

    def _named(self, followed: FollowedOutput) -> dict[str, object]:
        return {"table": self.spec.identifier, "output": followed.output.name, "topic": followed.output.topic}
