"""Perform a request of `frazil maintain`, in a running driver between two batches or in the command's own process."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.materialize.branches import ATTEMPTS
from frazil.materialize.group.complete import staged_branch
from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows
from frazil.materialize.maintenance.request import MaintenanceRequest, MaintenanceResult, answer
from frazil.materialize.rewrite_files import Rewrote
from frazil.materialize.state import standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import CommitRejectedError, FrazilError, MaintenanceError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

if TYPE_CHECKING:
    from frazil.materialize.clients import Clients
    from frazil.materialize.housekeeping import Housekeeping

LOG = logging.getLogger(__name__)


def perform_and_answer(keeping: Housekeeping, clients: Clients, table: str, request: MaintenanceRequest) -> None:
    """Perform a request for half a trigger, and store its result or its error in the request's place.

    Raises nothing: a request that cannot be performed must not stop a driver.
    """
    seconds = keeping.spec.trigger.every.total_seconds() / 2
    try:
        result = perform(keeping, clients, table, request, seconds=seconds)
    except FrazilError as failure:
        result = MaintenanceResult(error=failure.what, hint=failure.hint)
    except Exception as defect:
        LOG.exception("maintenance_failed", extra={"table": table, "request": request.id})
        hint = "this is a defect in Frazil: report it with the driver's log"
        result = MaintenanceResult(error=type(defect).__name__, hint=hint)
    try:
        answer(clients.lake, table, request, result, now=clients.now())
    except FrazilError as failure:
        LOG.warning("maintenance_not_answered", extra={"table": table, "request": request.id, "problem": failure.what})


def perform(
    keeping: Housekeeping, clients: Clients, table: str, request: MaintenanceRequest, *, seconds: float
) -> MaintenanceResult:
    """Rewrite files until none pays or the time is over, once at least, and expire snapshots. Raises FrazilError."""
    keeping.rows.look(own_rows(clients.lake, keeping.spec), now=clients.now())  # before a commit of this machine
    result = MaintenanceResult()
    if request.compact:
        result = _compacted(keeping, clients, table, until=time.monotonic() + seconds)
    if request.expire:
        result += MaintenanceResult(expired_snapshots=_expired(keeping, clients), more=result.more)
    return result


def _compacted(keeping: Housekeeping, clients: Clients, table: str, *, until: float) -> MaintenanceResult:
    result = MaintenanceResult()
    while True:
        try:
            done = _rewrote(keeping, clients, table)
        except CommitRejectedError as refused:  # a driver commits all the time: it is not an error that files are left
            LOG.warning("rewrite_given_up", extra={"table": table, "problem": str(refused)})
            return replace(result, more=True)
        if done is None:
            return replace(result, more=False)
        result += MaintenanceResult(
            done.files, done.into, done.copied_rows, done.deleted_rows, done.saved, done.seconds, more=True
        )
        if time.monotonic() >= until:
            return result


def _rewrote(keeping: Housekeeping, clients: Clients, table: str) -> Rewrote | None:
    """Rewrite files of the rows or else of the dead letters, again if another process committed meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _rewrote_once(keeping, clients)
        except CommitRejectedError as refused:
            LOG.info("rewrite_overtaken", extra={"table": table, "problem": str(refused)})
    return _rewrote_once(keeping, clients)


def _rewrote_once(keeping: Housekeeping, clients: Clients) -> Rewrote | None:
    view = own_rows(clients.lake, keeping.spec)
    _check_whole(clients, keeping.spec, view)
    done = keeping.rewriting.asked(clients, view)
    if done is not None:
        return done
    letters = own_dead_letters(clients.lake, keeping.spec)
    return None if letters is None else keeping.letter_rewriting.asked(clients, letters)


def _check_whole(clients: Clients, spec: TableSpec, view: TableView) -> None:
    """Raise MaintenanceError if the table lacks a batch that the ledger of its group has.

    The branch with that batch deletes rows by their places in the present files, so the table could not get it.
    """
    if spec.ledger is None or spec.write == "append":
        return
    ledger = standing(loaded(clients.lake, spec.ledger), pipeline=spec.pipeline)
    if staged_branch(standing(view, pipeline=spec.pipeline), ledger.state.batch_id) is not None:
        raise MaintenanceError(
            f"{view.identifier} lacks batch {ledger.state.batch_id}, which {spec.ledger} has: a process died before it"
            " had published the batch in all tables; no file was rewritten",
            hint="run `frazil materialize --once`, which completes the batch, and then this command again",
        )


def _expired(keeping: Housekeeping, clients: Clients) -> int:
    """Expire the snapshots of a table, and of its dead letters if they are its own."""
    lake, spec = clients.lake, keeping.spec
    both = ((keeping.rows, own_rows(lake, spec)), (keeping.dead_letters, own_dead_letters(lake, spec)))
    return sum(
        expiring.asked(lake, clients.delta_logs, view, clients.background, now=clients.now())
        for expiring, view in both
        if view is not None
    )
