"""Streams the partition and offset columns of a table, and adds them up by source partition."""

from __future__ import annotations

from collections.abc import Callable, Collection

from frazil.adapters.iceberg.scan import TableScan
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.proof.sources import add_batch, progress_by_source, source_columns
from frazil.proof.tally import Tallies, Tally

Watch = Callable[[str, int, int], None]
"""Called during long work with its name, how much is done, and the total."""


def tally_rows(
    view: TableView, spec: TableSpec, state: TableState, *, without: Collection[str], watch: Watch
) -> Tallies:
    """Add up the rows of the head, except those in the files `without`, which cannot be read."""
    columns = source_columns(spec, state)
    tallies = Tallies({at: Tally(p.origin, p.next) for at, p in progress_by_source(state).items()})
    scan = TableScan(view, columns=columns.names, without=without)
    for batch in scan.batches():
        add_batch(tallies, columns, batch)
        watch("rows", tallies.rows, scan.rows)
    return tallies
