"""Send the epochs of a table to its output topics. A failure never fails a batch: its rows are already visible."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.materialize.clients import Clients
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.outputs.follow import FollowedOutput
from frazil.outputs.send_all import begin_all, send_all


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
        return begin_all(clients.lake, view, self.spec.outputs, self.outputs)

    def send(self, clients: Clients, view: TableView) -> None:
        """Send to each output what it lacks. A failure of one is kept for the report, and the others are sent."""
        self.failure = send_all(clients.outputs, clients.lake, view, self.outputs, now=clients.now)
