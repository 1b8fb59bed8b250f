"""Why the tables of a group cannot be rebuilt by its spec: they are others than those that were made."""

from __future__ import annotations

import json

from frazil.materialize.changed_spec.applied_spec import TEXTS, applied_spec_of
from frazil.materialize.state import Standing
from frazil.model.errors import RebuildError
from frazil.model.progress import RouteLine, TableState
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Lake


def check_tables(spec: TableSpec, here: Standing) -> None:
    """Raise RebuildError if the table was made alone or in a group, and the spec says otherwise.

    A group has the ledger that it was made with; shapes have the same tables, and routes may have others.
    """
    applied = applied_spec_of(here.view.properties, table=spec.identifier)
    if applied is None:
        return
    had, wanted = applied.keys["shapes"], TEXTS["shapes"](spec)
    if had != wanted:
        raise RebuildError(
            f"{spec.identifier}: a rebuild makes the same tables again: the table was made with the shapes"
            f" {had or 'none'}, and {spec.source_file} says {wanted or 'none'}; nothing was changed",
            hint=f"restore `shapes` in {spec.source_file}; or write another spec with the same topic and other tables",
        )
    first, given = _first_route(applied.keys["routes"]), _first_route(TEXTS["routes"](spec))
    if first != given:
        raise RebuildError(
            f"{spec.identifier}: a rebuild keeps the table that holds the state of its group: the table was made with"
            f" the first route {first or 'none'}, and {spec.source_file} says {given or 'none'}; nothing was changed",
            hint=f"restore the first of `routes` in {spec.source_file}; or write another spec with the same topic and"
            " other tables",
        )


def _first_route(text: str) -> str:
    """Return the table of the first of these routes, as `TEXTS` records them; empty if there are none."""
    return str(json.loads(text)[0]["table"]) if text else ""


def check_removed(lake: Lake, spec: TableSpec, here: Standing, base: TableState | None) -> None:
    """Raise RebuildError if a table whose route was removed has records that are read again.

    They would be rows of the tables that take them now, and rows of that table. `base` is where a rewind begins.
    """
    group = here.state.group
    if spec.group is None or group is None:
        return
    named = {route.table for route in spec.group.routes}
    for line in group.lines:
        again = _records(line) - (0 if base is None or base.group is None else _records(base.group.line_of(line.table)))
        if line.table in named or not again or lake.load(f"{spec.database}.{line.table}") is None:
            continue
        raise RebuildError(
            f"{spec.database}.{line.table} has {plural(again, 'record')} that would be read again, and"
            f" {spec.source_file} has no route to it: they would be in two tables, or a dead letter and a row;"
            " nothing was changed",
            hint=f"add its route to {spec.source_file} again; or drop the table, and the present routes divide the"
            " records",
        )


def _records(line: RouteLine | None) -> int:
    return 0 if line is None else sum(count for each in line.read.values() for count in each.values())
