"""Tasks search the data files of a table for rows with the identities of a batch (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema

from frazil.materialize.clients import Clients
from frazil.model.probe import FoundRows, IdentityColumns, ProbeTask, StoredFile
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.followed import FollowedColumns
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.wanted import Numbers, as_array

ROWS_OF_A_TASK = 500_000
"""Rows that one task searches faster than several could be started."""


def find_rows(
    clients: Clients, spec: TableSpec, view: TableView, first: Numbers, second: Numbers
) -> Sequence[FoundRows]:
    """Return the rows at the view's head that have one of these distinct identities.

    Raises TaskFailedError, and CatalogError where files cannot be read or another tool deleted rows by equality.
    """
    files = clients.lake.stored_files(view)
    if not files:
        return ()
    schema, source = Schema.model_validate_json(view.schema_json), FollowedColumns.of(spec)
    ids = [schema.find_field(name).field_id for name in (FIRST, SECOND, *source.names)]
    clients.runner.start()
    tasks = [
        ProbeTask(
            table=view.identifier,
            location=view.location,
            files=share,
            columns=IdentityColumns(*ids),
            first=as_array(first),
            second=as_array(second),
            storage=clients.lake.storage,
            properties=dict(view.properties),
        )
        for share in shares(files, parallelism=clients.runner.parallelism)
    ]
    return clients.runner.find(tasks, name=f"{view.identifier} search of {len(first):,} identities")


def shares(files: Sequence[StoredFile], *, parallelism: int) -> list[list[StoredFile]]:
    """Assign files to tasks: the longest first, each to the task with the fewest rows so far."""
    count = 1 if sum(file.rows for file in files) <= ROWS_OF_A_TASK else min(parallelism, len(files))
    found: list[list[StoredFile]] = [[] for _ in range(count)]
    for file in sorted(files, key=lambda each: -each.rows):
        min(found, key=lambda share: sum(each.rows for each in share)).append(file)
    return found
