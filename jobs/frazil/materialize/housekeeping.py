"""Expire old snapshots between batches: those of the rows when due, those of the dead letters now and then."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.maintain.expiring import Expiring
from frazil.materialize.clients import Clients
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

DEAD_LETTERS_EVERY = 60
"""Batches between two looks at the snapshots of dead letters, which costs a read of their metadata."""


@dataclass(slots=True)
class Housekeeping:
    """Expires the snapshots of one table between batches, and those of its dead letters."""

    spec: TableSpec
    rows: Expiring = field(init=False)
    dead_letters: Expiring = field(init=False)
    batches: int = 0

    def __post_init__(self) -> None:
        keep = self.spec.maintain.keep_snapshots
        self.rows, self.dead_letters = Expiring(keep, CHECKPOINT_TAG), Expiring(keep, CHECKPOINT_TAG)

    def expire_rows(self, clients: Clients, rows: TableView) -> None:
        self.rows.between_batches(clients.lake, clients.delta_logs, rows, clients.background, now=clients.now())

    def expire_dead_letters(self, clients: Clients) -> None:
        self.batches += 1
        if self.batches % DEAD_LETTERS_EVERY != 1:
            return
        view = clients.lake.load(self.spec.dead_letters_identifier)
        if view is not None:
            self.dead_letters.between_batches(
                clients.lake, clients.delta_logs, view, clients.background, now=clients.now()
            )
