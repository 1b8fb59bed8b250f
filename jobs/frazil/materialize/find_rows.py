"""Tasks search the data files of a table for rows with the identities of a batch (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.materialize.clients import Clients
from frazil.materialize.even_shares import even_shares
from frazil.materialize.ingest.stored_schema import iceberg_schema
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.probe import FoundRows, IdentityColumns, ProbeTask, StoredFile
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.followed import FollowedColumns
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.wanted import Numbers, as_array

ROWS_OF_A_TASK = 500_000
"""Rows that one task searches faster than several could be started."""


def find_rows(
    clients: Clients, spec: TableSpec, view: TableView, numbers: PartitionNumbers, first: Numbers, second: Numbers
) -> Sequence[FoundRows]:
    """Return the rows at the view's head that have one of these distinct identities.

    `numbers` are those of the partitions, with which rows are returned. Raises TaskFailedError, and CatalogError where
    files cannot be read or another tool deleted rows by equality.
    """
    files = clients.lake.stored_files(view)
    if not files:
        return ()
    schema, source = iceberg_schema(view.schema_json), FollowedColumns.of(spec, numbers)
    order = source.order if source.compares_stored else ()
    names = (FIRST, SECOND, source.partition, source.offset, *order)
    first_id, second_id, partition, offset, *ordering = (schema.find_field(name).field_id for name in names)
    end = schema.find_field(source.end).field_id if source.end is not None else None
    topic = schema.find_field(source.topic).field_id if source.topic is not None else None
    clients.runner.start()
    is_small = sum(map(_rows, files)) <= ROWS_OF_A_TASK
    count = 1 if is_small else min(clients.runner.parallelism, len(files))
    tasks = [
        ProbeTask(
            table=view.identifier,
            location=view.location,
            files=share,
            columns=IdentityColumns(first_id, second_id, partition, offset, tuple(ordering), end, topic, numbers),
            first=as_array(first),
            second=as_array(second),
            storage=clients.lake.storage,
            properties=dict(view.properties),
        )
        for share in even_shares(files, size=_rows, count=count)
    ]
    return clients.runner.find(tasks, name=f"{view.identifier} search of {len(first):,} identities")


def _rows(file: StoredFile) -> int:
    return file.rows
