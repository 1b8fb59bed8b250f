"""Compute the memory that nulls take in columns that a writer's schema lacks.

Arrow stores a null of a fixed(n) in n bytes, so 50,000 rows without a fixed of 1 MB would take 50 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from frazil.formats.families import is_list
from frazil.formats.placement import ColumnSources, join

MOST_NULL_BYTES = 256 << 20
"""The maximum per batch of rows. The decoders have the same limit for the fields of a writer's schema."""

SMALL_BYTES = 16
"""Smaller values are not counted: they take no more memory than values of other types."""


def null_bytes_of_row(fields: Iterable[pa.Field]) -> int:
    """Return the bytes of one row whose columns are all null."""
    return sum(_of_type(field.type) for field in fields)


def wide_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields whose nulls are counted, because they hold a large fixed(n) at some depth."""
    return [field for field in fields if _is_wide(field.type)]


def null_bytes_added(batch: pa.RecordBatch, wide: Sequence[pa.Field], sources: ColumnSources) -> int:
    """Return the bytes of the nulls that `arrow.fit` adds to a batch for these fields of its target, at any depth."""
    if not wide:
        return 0
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    return _of_fields(given, wide, "", sources, len(batch))


def _is_wide(kind: pa.DataType) -> bool:
    return _of_type(kind) > 0 or any(_is_wide(kind.field(n).type) for n in range(kind.num_fields))


def _of_type(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _of_type(kind.storage_type)
    if pa.types.is_fixed_size_binary(kind):
        return kind.byte_width if kind.byte_width > SMALL_BYTES else 0
    return null_bytes_of_row(kind) if pa.types.is_struct(kind) else 0


def _of_fields(
    given: Mapping[str, pa.Array], wanted: Iterable[pa.Field], path: str, sources: ColumnSources, rows: int
) -> int:
    total = 0
    for field in wanted:
        here = join(path, field.name)
        source = sources.get(here)
        total += rows * _of_type(field.type) if source is None else _of_column(given[source], field.type, here, sources)
    return total


def _of_column(array: pa.Array, wanted: pa.DataType, path: str, sources: ColumnSources) -> int:
    types = pa.types
    if types.is_struct(array.type) and types.is_struct(wanted):
        children = {field.name: array.field(index) for index, field in enumerate(array.type)}
        return _of_fields(children, wanted, path, sources, len(array))
    if types.is_map(array.type) and types.is_map(wanted):
        return _of_column(array.items, wanted.item_type, path + "{}", sources)
    if is_list(array.type) and is_list(wanted):
        return _of_column(array.values, wanted.value_type, path + "[]", sources)
    return 0
