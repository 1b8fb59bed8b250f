"""The records of an epoch: its rows, and of a table that follows keys a tombstone for each key without a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.snapshot import TableView
from frazil.outputs.ports import OutputRows
from frazil.outputs.records import RecordEncoder

LOOKED_UP_TOGETHER = 250_000
"""Keys of rows that are gone are looked up together: each look-up begins with a table of all keys of the epoch."""

KeysAndValues = tuple[pa.Array | None, pa.Array]


def rows_of(rows: OutputRows, view: TableView, snapshot_id: int, encoder: RecordEncoder) -> Iterator[KeysAndValues]:
    """Yield the keys and values of the rows that an epoch added."""
    return encoder.encoded(rows.added(view, snapshot_id, encoder.shape.names))


def changes_of(rows: OutputRows, view: TableView, snapshot_id: int, encoder: RecordEncoder) -> Iterator[KeysAndValues]:
    """Yield what `rows_of` yields, and then each key of which an epoch left no row, with null as its value.

    The keys are those of rows that the epoch took out and to which it added no other one. They are the identity of
    rows, so the table has no row of these keys.
    """
    present: list[pa.Array] = []
    for keys, values in rows_of(rows, view, snapshot_id, encoder):
        present.append(keys)
        yield keys, values
    names = [column.name for column in encoder.shape.key]
    identified = _with_null_keys if encoder.shape.null_keys else _identified
    gone = (encoder.keys(identified(batch)) for batch in rows.removed(view, snapshot_id, names))
    for keys in _together(gone):
        without = _not_among(keys, present)
        if len(without):
            yield without, pa.nulls(len(without), pa.binary())


def _with_null_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def _identified(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that have a key; those of other writers may have none."""
    return rows.filter(reduce(pc.and_, (column.is_valid() for column in rows.columns)))


def _together(keys: Iterable[pa.Array | None]) -> Iterator[pa.Array]:
    """Yield the keys in large arrays, each of which has a key once."""
    held: list[pa.Array] = []
    for each in keys:
        if each is not None:
            held.append(each)
        if sum(map(len, held)) >= LOOKED_UP_TOGETHER:
            yield pc.unique(pa.concat_arrays(held))
            held = []
    if held:
        yield pc.unique(pa.concat_arrays(held))


def _not_among(keys: pa.Array, present: list[pa.Array]) -> pa.Array:
    if not present:
        return keys
    return keys.filter(pc.invert(pc.is_in(keys, value_set=pa.chunked_array(present))))
