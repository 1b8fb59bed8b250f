"""Erase rows: write their files anew without them, and make the table visible without these files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.valued_rows import rows_with
from frazil.forget.matching import Places
from frazil.forget.rewriting import Rewritten, affected_by, rewrite_without
from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.state import Standing
from frazil.materialize.without_rows import WithoutRows, not_as_written, tallied
from frazil.model.errors import ErasureError
from frazil.model.ingested import ForgottenFiles
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.traces import SoughtValue, Traces
from frazil.modes.mode import BatchChange
from frazil.ports import Lake
from frazil.proof.sources import source_columns
from frazil.proof.tally import Tallies


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """Rows that are written out of their files, and not out of the table yet.

    `tallies` has them by partition; `began` is `elapsed_seconds()` before the first file was written.
    """

    rewritten: Rewritten
    tallies: Tallies
    began: float

    @property
    def rows(self) -> int:
        return self.tallies.rows


@dataclass(frozen=True, slots=True)
class RowErasure:
    """Erases the rows of a table that have a value. `names` gives the branch of each attempt."""

    lake: Lake
    spec: TableSpec
    writer: str
    sought: SoughtValue
    names: Iterator[str]

    def rewrite(self, here: Standing, traces: Traces) -> ErasedRows:
        """Write the files with traces anew. The table stays as it is.

        Raises ErasureError, CatalogError and CountMismatchError.
        """
        view, began = here.view, elapsed_seconds()
        spec = as_applied(self.spec, view.properties)
        columns = source_columns(spec, here.state)
        rewritten = rewrite_without(
            self.lake,
            view,
            affected_by(self.lake, view, {each.address for each in traces.found}),
            lambda file: self._positions_in(view, file.path),
            columns=columns.names,
            prefix=f"{self.writer}-forget",
            target_bytes=self.spec.maintain.target_file_bytes,
        )
        tallies = tallied(columns, here, rewritten.erased)
        _check(view, tallies)
        return ErasedRows(rewritten, tallies, began)

    def _positions_in(self, view: TableView, path: str) -> Positions:
        with reading(view.identifier), view.current.io.new_input(path).open() as stream:
            found = rows_with(self.sought, pq.ParquetFile(stream))
        return np.empty(0, np.int64) if found is None else found

    def publish(self, here: Standing, erased: ErasedRows, *, batch_id: str) -> int:
        """Make the table without the rows visible; return its snapshot.

        Raises OvertakenError if another process committed first, and what `publish` of a batch raises.
        """
        done = erased.rewritten
        change = BatchChange(done.files, done.figures, deletes=(ForgottenFiles(done.dropped),))
        without = WithoutRows(self.lake, self.spec, self.writer, self.names)
        view = without.publish(here, change, erased.tallies, batch_id=batch_id, began=erased.began)
        assert view.head is not None  # noqa: S101 - it was just published
        return view.head


def places_of(here: Standing, erased: ErasedRows) -> Places:
    """Return the places of the dead letters that became these rows."""
    generations = {source.topic: source.generation for source in here.state.sources}
    return Places(
        {
            (here.view.uuid, topic, generations[topic], number): tally.seen
            for (topic, number), tally in erased.tallies.by_source.items()
            if tally.seen
        }
    )


def _check(view: TableView, erased: Tallies) -> None:
    """Raise ErasureError for rows that no figure could account for: `verify` has findings about them already."""
    problems = not_as_written(erased)
    if problems:
        raise ErasureError(
            f"{view.identifier}: rows to erase are not as they were written ({'; '.join(problems)});"
            " nothing was erased",
            hint="run `frazil verify` and fix what it finds, then run it again",
        )
