"""Which rows and which dead letters have the value that is to be erased."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.traces import PAYLOADS
from frazil.materialize.dead_letter_marks import by_source, offsets_of
from frazil.model.errors import ErasureError
from frazil.model.expired_letters import Source as LetterSource
from frazil.model.snapshot import TableView
from frazil.model.traces import SoughtValue
from frazil.proof.tally import bitmap_of

_PLACE = "_place"


def column_now(view: TableView, sought: SoughtValue) -> tuple[str, ...]:
    """Return the names that lead to the column as the table has it now.

    Raises ErasureError if the table has no such column any more: its rows cannot be chosen by it.
    """
    name = view.current.schema().find_column_name(sought.field_id)
    if name is None:
        raise ErasureError(
            f"{view.identifier} has the column {sought.column} no longer, and files with its values: rows are erased by"
            " a column that the table has; nothing was erased",
            hint="name another column with `--where`; the values of a dropped column go as its files are compacted and"
            " its snapshots expire",
        )
    return tuple(str(name).split("."))


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Rows with the value in a column, which may be in structs."""

    path: tuple[str, ...]
    value: str | int

    def __call__(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        first, *inner = self.path
        column = pc.struct_field(rows.column(first), inner) if inner else rows.column(first)
        wide = pa.int64() if isinstance(self.value, int) else pa.string()
        return pc.equal(column.cast(wide), pa.scalar(self.value, wide))


@dataclass(slots=True)
class Places:
    """Places of dead letters: offsets by table of rows, topic, generation and partition. Marks have those of theirs."""

    offsets: dict[LetterSource, BitMap64] = field(default_factory=dict)

    def __contains__(self, source: object) -> bool:
        return source in self.offsets

    def add(self, letters: pa.RecordBatch) -> None:
        """Add the places of these letters."""
        for source, part in _by_table(letters):
            self.offsets.setdefault(source, BitMap64()).update(bitmap_of(offsets_of(part)))

    def have(self, letters: pa.RecordBatch) -> pa.BooleanArray:
        """Return which letters, and which marks, are at these places."""
        found = np.zeros(letters.num_rows, np.bool_)
        for source, part in _by_table(letters.append_column(_PLACE, pa.array(np.arange(letters.num_rows)))):
            known = self.offsets.get(source, BitMap64())
            hit = np.fromiter((offset in known for offset in offsets_of(part).tolist()), np.bool_, part.num_rows)
            found[part.column(_PLACE).to_numpy()[hit]] = True
        return pa.array(found, pa.bool_())


def has_text(is_in: Callable[[object], bool], letters: pa.RecordBatch) -> pa.BooleanArray:
    """Return which letters have the text in the key, the value or the headers of their record, as `is_in` looks."""
    payloads = letters.select([name for name in PAYLOADS if name in letters.schema.names]).to_pylist()
    return pa.array([any(map(is_in, each.values())) for each in payloads], pa.bool_())


def _by_table(letters: pa.RecordBatch) -> Iterator[tuple[LetterSource, pa.RecordBatch]]:
    """Yield the letters of each partition, of each table of rows that they name."""
    for uuid in pc.unique(letters.column("table_uuid")).drop_null().to_pylist():
        of_table = letters.filter(pc.fill_null(pc.equal(letters.column("table_uuid"), uuid), False))
        for source, part in by_source(of_table):
            yield (uuid, *source), part
