"""Tables that were replaced by their rebuild: their snapshots, and the readers that do not read Iceberg."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from frazil.materialize.announce import Announcing
from frazil.materialize.clients import Clients
from frazil.materialize.group.complete import Places
from frazil.materialize.group.rebuilt import is_ready
from frazil.materialize.warn_once import WarnOnce
from frazil.model.errors import CatalogError, CommitError
from frazil.model.progress import BatchRef, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import batch_of, receipt_in

LOG = logging.getLogger(__name__)


def check_replaced(view: TableView, after: TableState, failed: CommitError) -> None:
    """Raise the error of the commit that replaces the table, unless it has landed: its answer may be lost.

    It may also be refused then, if it was sent again below the catalog's client.
    """
    if all(batch_of(snapshot) != after.itself for snapshot in view.ancestry(view.head)):
        raise failed


def was_interrupted(before: Places, batch: BatchRef) -> bool:
    """Return whether a rebuild had replaced the ledger of a group, with this batch, and not yet all other tables."""
    return any(is_ready(each, batch.batch_id) for each in before.values())


def receipts_of(here: Places, batch: BatchRef) -> list[Receipt]:
    """Return the receipts of the snapshots of a batch, which the tables have."""
    found = (next(each for each in at.view.ancestry(at.view.head) if batch_of(each) == batch) for at in here.values())
    receipts = ((receipt_in(snapshot), snapshot.id) for snapshot in found)
    return [replace(receipt, snapshot_id=snapshot) for receipt, snapshot in receipts if receipt is not None]


def announce(clients: Clients, specs: Iterable[TableSpec]) -> None:
    """Bring the readers that do not read Iceberg to the tables. A failure is logged, and the next run repairs it."""
    for spec in specs:
        try:
            view = clients.lake.load(spec.identifier)
        except CatalogError as failed:
            about = {"table": spec.identifier, "problem": failed.what, "hint": failed.hint}
            LOG.warning("delta_log_failed", extra=about)
            continue
        if view is not None:
            Announcing(spec, WarnOnce(spec.identifier)).announce(clients, view)
