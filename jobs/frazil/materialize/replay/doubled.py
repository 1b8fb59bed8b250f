"""No letter becomes a row a second time, whatever others did to the table of dead letters and its marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.materialize.state import Standing
from frazil.model.errors import CountMismatchError
from frazil.model.spec import TableSpec
from frazil.ports import Lake
from frazil.proof.sources import source_columns


def check_no_rows(lake: Lake, spec: TableSpec, at: Standing, chosen: Mapping[Source, Offsets]) -> None:
    """Raise CountMismatchError if one of the letters is a row of the table already: its mark is gone."""
    for source, offsets in chosen.items():
        for found in _row_offsets(lake, spec, at, source, offsets):
            already = np.intersect1d(found, offsets)
            if len(already):
                raise CountMismatchError(
                    f"{at.view.identifier}: {source[0]}-{source[2]}@{already[0]} is a dead letter without the mark of a"
                    " replay, and a row; nothing was published",
                    hint="others changed the table of dead letters, perhaps its marks: run `frazil verify`, and"
                    " restore it",
                )


def _row_offsets(lake: Lake, spec: TableSpec, at: Standing, source: Source, offsets: Offsets) -> Iterator[Offsets]:
    """Yield the offsets of the partition's rows, at least those that are between the letters'."""
    columns, (topic, _, partition) = source_columns(spec, at.state), source
    for batch in lake.read(
        at.view,
        columns=columns.names,
        equal={columns.partition: partition},
        between=(columns.offset, int(offsets.min()), int(offsets.max()) + 1),
    ):
        for name, rows in columns.by_topic(batch):
            if name == topic:
                yield rows.column(columns.offset).to_numpy(zero_copy_only=False)
