"""What would keep the tables of a group from their next batch, found without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from frazil.materialize.clients import Step
from frazil.materialize.group.begin import beginning, ledger_lost
from frazil.materialize.group.complete import apart_for_good
from frazil.materialize.pause.pausing import under_ledger
from frazil.materialize.state import Standing, standing
from frazil.model.errors import FrazilError, StateLostError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

OtherTables = Mapping[str, TableView | None]
"""The other tables of a group by name without the database, for the spec of its ledger; empty for any other spec."""


def in_group(spec: TableSpec, load: Callable[[str], TableView | None]) -> TableView | None:
    """Load a table; another table of a group than its ledger has the pause and the excluded schemas of that one."""
    ledger = None if spec.ledger is None else load(spec.ledger)
    view = load(spec.identifier)
    return None if view is None else under_ledger(view, ledger)


def other_tables(spec: TableSpec, load: Callable[[str], TableView | None]) -> OtherTables:
    if spec.group is None or spec.ledger is not None:
        return {}
    return {route.table: load(f"{spec.database}.{route.table}") for route in spec.group.routes[1:]}


def group_obstacles(
    spec: TableSpec, ledger: Standing | None, others: OtherTables
) -> Iterator[tuple[Step, FrazilError]]:
    """Yield what the steps refuse; `ledger` is None if that table is missing. A table of another owner is left out."""
    there: dict[str, Standing] = {}
    for name, view in others.items():
        of_other = replace(spec, table=name)
        with suppress(FrazilError):  # reported for the table itself
            if view is not None:
                there[of_other.identifier] = standing(view, pipeline=spec.pipeline)
        if view is None and ledger is not None:
            try:
                beginning(of_other, ledger)
            except StateLostError as lost:
                yield "create", lost
    if ledger is None:
        for identifier, other in there.items():
            yield "create", ledger_lost(spec, identifier, other)
            return
    elif (apart := apart_for_good(spec, {spec.identifier: ledger, **there})) is not None:
        yield "recover", apart
