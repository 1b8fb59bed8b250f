"""Tables that join a group: they begin at the ledger's batch, whatever was before."""

from __future__ import annotations

from dataclasses import replace

from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.foreign import count_foreign
from frazil.materialize.group.apart import tables_apart
from frazil.materialize.group.complete import Places
from frazil.materialize.group.ledger import placed, reads_of
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import CommitError, CommitRejectedError
from frazil.model.spec import TableSpec
from frazil.model.summary import store
from frazil.ports import Lake


def join(lake: Lake, spec: TableSpec, here: Places) -> Places:
    """Return the tables, with those that had no part in the ledger's last batch at that batch.

    A table whose route was added again keeps its rows. If another driver publishes meanwhile, the tables may be at two
    batches: they are not planned on. Raises GroupApartError if such a table has other rows than the ledger says.
    """
    ledger = here[spec.identifier]
    return {name: _joined(lake, spec, ledger, each) for name, each in here.items()}


def _joined(lake: Lake, spec: TableSpec, ledger: Standing, table: Standing) -> Standing:
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        if table.state.itself == ledger.state.itself or _has_moved(lake, spec, ledger):
            return table
        _check_line(spec, ledger, table)
        state = replace(placed(table.state, ledger.state), foreign=count_foreign(table))
        stored = store(state)
        try:
            lake.begin(table.view, stored.summary, document=stored.document, tag=CHECKPOINT_TAG)
        except CommitError as failed:
            reason = failed
        table = standing(loaded(lake, table.view.identifier), pipeline=spec.pipeline)
    raise given_up(table.view.identifier, "join its group", reason) from reason


def _has_moved(lake: Lake, spec: TableSpec, ledger: Standing) -> bool:
    """Return whether the ledger has another batch now, which the table may have, too.

    It is loaded after the table, whose head the commit compares: so a table with the new batch never gets the old one.
    """
    now = standing(loaded(lake, ledger.view.identifier), pipeline=spec.pipeline)
    return now.state.itself != ledger.state.itself


def _check_line(spec: TableSpec, ledger: Standing, table: Standing) -> None:
    group = ledger.state.group
    line = None if group is None else group.line_of(table.view.identifier.removeprefix(f"{spec.database}."))
    if ({} if line is None else line.read) != reads_of(table.state):
        why = f"{table.view.identifier} has other rows than the ledger, {ledger.view.identifier}, says"
        raise tables_apart(spec.pipeline.name, [ledger, table], why)
