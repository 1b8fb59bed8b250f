"""What `frazil maintain` would do: nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.materialize.clients import Clients
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows
from frazil.materialize.rewrite_files import benefit
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural

WITHOUT_BOUND = 1 << 62


@dataclass(frozen=True, slots=True)
class MaintenancePlan:
    """What would be done with a table. `files` would become `into` files."""

    table: str
    files: int
    into: int
    copied_rows: int
    saved_rows: int
    expired_snapshots: int

    def lines(self) -> Iterator[str]:
        if not self.files and not self.expired_snapshots:
            yield f"{self.table}: nothing to do"
            return
        yield f"{self.table}:"
        if self.files:
            yield f"  {plural(self.files, 'file')} would become {self.into:,}"
            yield f"  {benefit(self.copied_rows, self.saved_rows)}"
        if self.expired_snapshots:
            yield f"  {plural(self.expired_snapshots, 'snapshot')} would expire"


def preview(clients: Clients, spec: TableSpec, *, compact: bool, expire: bool) -> MaintenancePlan:
    """Return what would be done. Raises as `own_rows`."""
    view, keeping = own_rows(clients.lake, spec), Housekeeping(spec, "")
    letters = own_dead_letters(clients.lake, spec)
    chosen = [keeping.rewriting.paying(clients, view, pass_bytes=WITHOUT_BOUND)] if compact else []
    expiries = [keeping.rows.possible(view, now=clients.now())] if expire else []
    if letters is not None:
        if compact:
            chosen.append(keeping.letter_rewriting.paying(clients, letters, pass_bytes=WITHOUT_BOUND))
        if expire:
            expiries.append(keeping.dead_letters.possible(letters, now=clients.now()))
    return MaintenancePlan(
        table=spec.identifier,
        files=sum(len(each.files) for each in chosen),
        into=sum(len(each.merges) or len({file.partition for file in each.files}) for each in chosen),
        copied_rows=sum(each.rows for each in chosen),
        saved_rows=sum(each.saved for each in chosen),
        expired_snapshots=sum(len(each.snapshots) for each in expiries),
    )
