"""Where a table begins that is to be made for a group that may have batches already."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.materialize.changed_spec.spec_changes import refused_changes, spec_changes
from frazil.materialize.group.ledger import placed
from frazil.materialize.state import Standing, standing
from frazil.model.errors import StateLostError
from frazil.model.progress import TableState
from frazil.model.spec import TableSpec
from frazil.ports import Lake

_RESTORE = "register it again from its newest metadata file, or drop all tables of the group to read the topic again"


def check_ledger_not_lost(lake: Lake, ledger: TableSpec, others: Sequence[TableSpec]) -> None:
    """Raise StateLostError if the ledger of a group is missing and another of its tables is there.

    A new ledger would read everything again, and double the rows of the other tables. Raises SpecChangeError if another
    table was the ledger.
    """
    view = lake.load(ledger.identifier)
    if view is not None and ledger.group is not None:
        changed = [change for change in spec_changes(ledger, view) if change.key in ("routes", "shapes")]
        for refused in refused_changes(ledger, changed):
            raise refused
    if not others or view is not None:
        return
    for spec in others:
        view = lake.load(spec.identifier)
        if view is not None:
            for refused in refused_changes(spec, spec_changes(spec, view)):
                raise refused
            raise ledger_lost(ledger, spec.identifier, standing(view, pipeline=spec.pipeline))


def ledger_lost(ledger: TableSpec, other: str, at: Standing) -> StateLostError:
    return StateLostError(
        f"the table {ledger.identifier} was dropped, which holds the state of {ledger.pipeline.name};"
        f" {other} is at epoch {at.state.epoch}",
        hint=_RESTORE,
    )


def beginning(spec: TableSpec, ledger: Standing) -> TableState:
    """Return the state of a missing table of a group: it begins at the ledger's batch.

    Raises StateLostError if it had a part in the group's past.
    """
    group = ledger.state.group
    if group is not None and group.line_of(spec.table) is not None:
        raise StateLostError(
            f"the table {spec.identifier} was dropped: {ledger.view.identifier}, which holds the state of"
            f" {spec.pipeline.name}, counts its rows",
            hint=_RESTORE,
        )
    return placed(None, ledger.state)
