"""Pause a table for a batch with too many bad records."""

from __future__ import annotations

from frazil.materialize.account import Ingested
from frazil.materialize.clients import Clients
from frazil.materialize.dead_letters import keep_pending
from frazil.materialize.pause.fenced_pause import Pauser
from frazil.materialize.pause.limits import check_limits
from frazil.materialize.pause.pausing import Accepted
from frazil.model.errors import BadRecordLimitError
from frazil.model.plan import BatchPlan


def pause_above_limit(
    pauser: Pauser, clients: Clients, plan: BatchPlan, got: Ingested, *, writer: str, accepted: Accepted
) -> None:
    """Pause the table and raise BadRecordLimitError if the batch has too many bad records.

    Its dead letters are kept on a branch, where `frazil dead-letters list --pending` shows them.
    """
    try:
        check_limits(pauser.spec, got, accepted=accepted)
    except BadRecordLimitError as exceeded:
        keep_pending(clients.lake, pauser.spec, plan=plan, writer=writer, files=got.dead_letter_files)
        pauser.pause(clients, exceeded, got)
        raise
