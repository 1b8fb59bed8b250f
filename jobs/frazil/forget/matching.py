"""Which dead letters have the value that is to be erased, or became rows that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.traces import PAYLOADS
from frazil.materialize.dead_letter_marks import by_source, offsets_of
from frazil.model.expired_letters import Source as LetterSource
from frazil.proof.tally import bitmap_of

IsIn = Callable[[str, object], bool]
"""Says of a column of dead letters, by its name, and of a payload in it whether it has the text."""
_PLACE = "_place"


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


def positions_where(
    batches: Iterable[pa.RecordBatch], is_erased: Callable[[pa.RecordBatch], pa.BooleanArray]
) -> Positions:
    """Return the positions of the rows to erase, ascending, among batches that follow each other. Null is no."""
    found, start = [np.empty(0, np.int64)], 0
    for batch in batches:
        mask = pc.fill_null(is_erased(batch), False)
        found.append(np.flatnonzero(mask.to_numpy(zero_copy_only=False)) + start)
        start += batch.num_rows
    return np.concatenate(found)


def has_text(is_in: IsIn, letters: pa.RecordBatch) -> pa.BooleanArray:
    """Return which letters have the text in the key, the value or the headers of their record, as `is_in` looks."""
    payloads = letters.select([name for name in PAYLOADS if name in letters.schema.names]).to_pylist()
    return pa.array([any(is_in(*each) for each in letter.items()) for letter in payloads], pa.bool_())


def _by_table(letters: pa.RecordBatch) -> Iterator[tuple[LetterSource, pa.RecordBatch]]:
    """Yield the letters of each partition, of each table of rows that they name."""
    for uuid in pc.unique(letters.column("table_uuid")).drop_null().to_pylist():
        of_table = letters.filter(pc.fill_null(pc.equal(letters.column("table_uuid"), uuid), False))
        for source, part in by_source(of_table):
            yield (uuid, *source), part
