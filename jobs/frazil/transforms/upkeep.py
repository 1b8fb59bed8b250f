"""What a process does around the batches of a transformation: it renews its clients, and maintains the table."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from frazil.maintain.expiring import Expiring
from frazil.materialize.clients import Clients, ClientSource
from frazil.materialize.rewrite_files import MadeTable, Rewriting
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Upkeep:
    """Keeps the clients and the table of one transformation in order. `clients` are those of the batch at work."""

    spec: TransformSpec
    source: ClientSource
    writer: str
    clients: Clients = field(init=False)
    _expiring: Expiring = field(init=False)
    _of_groups: Rewriting = field(init=False)
    _of_rows: Rewriting = field(init=False)
    _has_looked: bool = False

    def __post_init__(self) -> None:
        maintain = self.spec.maintain
        self.clients = self.source.clients()
        self._expiring = Expiring(maintain.keep_snapshots, CHECKPOINT_TAG)
        # groups change, as rows of an upsert do; other rows stay
        self._of_groups = Rewriting(MadeTable(maintain, "upsert"), self.writer)
        self._of_rows = Rewriting(MadeTable(maintain, "append"), self.writer)

    def begin(self) -> Clients:
        """Return the clients of the next batch. A batch ends with the clients that it began with."""
        self.clients = self.source.clients()
        if not self._has_looked:
            view = self.clients.lake.load(self.spec.identifier)
            self._has_looked = view is not None
            if view is not None:
                self._expiring.look(view, now=self.clients.now())
        return self.clients

    def service_failed(self) -> None:
        """Let secrets be read again soon: one may have been revoked."""
        self.source.invalidate()

    def after_batch(self) -> None:
        """Rewrite files that make scans slow, and expire old snapshots, if it pays. A failure is logged."""
        try:
            self._maintain()
        except FrazilError as failed:
            LOG.warning("upkeep_failed", extra={"table": self.spec.identifier, "problem": str(failed)})

    def _maintain(self) -> None:
        clients = self.clients
        view = clients.lake.load(self.spec.identifier)
        if view is not None:
            (self._of_groups if _has_deleted_rows(view) else self._of_rows).between_batches(clients, view)
            view = clients.lake.load(self.spec.identifier)
        if view is not None:
            self._expiring.between_batches(
                clients.lake, clients.delta_logs, view, clients.background, now=clients.now()
            )


def _has_deleted_rows(view: TableView) -> bool:
    """Return whether the table is one of groups that later batches have replaced: others have whole files only."""
    head = view.head_snapshot()
    return head is not None and head.figure("total-position-deletes") > 0
