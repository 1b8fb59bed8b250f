"""`write: append`: every record that is decoded becomes one row, which stays."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.model.ingested import WrittenFile
from frazil.model.progress import Counts
from frazil.model.snapshot import TableView
from frazil.modes.mode import BatchChange, Mode
from frazil.proof.rows import prove_rows


def add_every_row(files: Sequence[WrittenFile], counts: Counts, _: TableView) -> BatchChange:
    """Return the change that adds all files and takes no row out, whatever the table holds."""
    return BatchChange(files, {"added-records": counts.rows, "deleted-records": 0})


APPEND = Mode("append", change=add_every_row, prove_rows=prove_rows)
