"""The rows of a Parquet file that have a value in a column: what a search finds is what an erasure takes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.source_nulls import FIELD_ID
from frazil.model.traces import SoughtValue

ColumnPath = tuple[str, ...]
"""The names that lead to a column through structs."""


def rows_with(sought: SoughtValue, file: pq.ParquetFile) -> Positions | None:
    """Return the positions of the rows with the value, ascending; None if no column of the file is known.

    Columns are found by their field ids. In an imported file without ids, a column is known by its name.
    """
    if _has_ids(file.schema_arrow):
        by_id = [(path_of(file.schema_arrow, each.field_id), each.value) for each in sought.columns]
        found = [_positions(file, path, value) for path, value in by_id if path is not None]
    else:
        path = tuple(sought.column.split("."))
        if path[0] not in file.schema_arrow.names:
            return None
        found = [_positions(file, path, each.value) for each in sought.columns]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))


def _positions(file: pq.ParquetFile, path: ColumnPath, value: str | int) -> Positions:
    parts = [np.empty(0, np.int64), *_matching(file, path, value)]
    return np.concatenate(parts)


def _matching(file: pq.ParquetFile, path: ColumnPath, value: str | int) -> Iterator[Positions]:
    start, wide = 0, pa.int64() if isinstance(value, int) else pa.string()
    for batch in file.iter_batches(columns=[".".join(path)]):
        column = pc.struct_field(batch.column(0), list(path[1:])) if path[1:] else batch.column(0)
        if pa.types.is_integer(column.type) != isinstance(value, int):
            return  # an imported file without ids, with a column of the type that another column of the name has
        mask = pc.fill_null(pc.equal(column.cast(wide), pa.scalar(value, wide)), False)
        yield np.flatnonzero(mask.to_numpy(zero_copy_only=False)) + start
        start += batch.num_rows


def _has_ids(schema: pa.Schema) -> bool:
    return any(FIELD_ID in (field.metadata or {}) for field in schema)


def path_of(fields: pa.Schema | pa.StructType, field_id: int) -> ColumnPath | None:
    """Return the names that lead to a column of a file by its field id, through structs; None if it has none."""
    for field in fields:
        if (field.metadata or {}).get(FIELD_ID) == str(field_id).encode():
            return (field.name,)
        inner = path_of(field.type, field_id) if pa.types.is_struct(field.type) else None
        if inner is not None:
            return (field.name, *inner)
    return None
