"""Nulls in the columns of rows' sources, read from one Parquet file: their number from its footer, or their rows.

Only these columns count: another writer's file may have types that Iceberg lacks in the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyroaring import BitMap64

from frazil.adapters.iceberg.parquet_slices import opened_for_dictionaries, slices
from frazil.adapters.iceberg.undecodable import decoding

BATCH_BYTES = 4 << 20
BUFFER_BYTES = 1 << 20
FIELD_ID = b"PARQUET:field_id"

Ids = frozenset[int]


def nulls_in_footer(table: Table, path: str, wanted: Ids) -> dict[int, int]:
    """Return the nulls of those of the columns that a data file has.

    Raises ValueError if they have no statistics, and UndecodableFileError.
    """
    with decoding(table.io, path), table.io.new_input(path).open() as stream:
        footer = pq.ParquetFile(stream)
    names = names_of(footer.schema_arrow, table.name_mapping(), wanted)
    columns = leaves(footer.metadata)
    return {number: _nulls(footer.metadata, columns[name]) for number, name in names.items() if name in columns}


def rows_without_source(table: Table, path: str, columns: Sequence[Ids], *, among: BitMap64) -> BitMap64:
    """Return which rows `among` these have no value in one of the columns; each column may have several field ids.

    Holds a few MB of the columns at a time. Raises UndecodableFileError.
    """
    with decoding(table.io, path), table.io.new_input(path).open() as stream:
        parquet = pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER_BYTES)
        names = names_of(parquet.schema_arrow, table.name_mapping(), frozenset().union(*columns))
        parts = [[names[number] for number in ids if number in names] for ids in columns]
        found = BitMap64()
        for start, batch in _batches(stream, parquet, sorted(names.values()), among):
            found.update(start + position for position in _incomplete(batch, parts).to_pylist())
    return found & among


def _batches(
    stream: Any, parquet: pq.ParquetFile, names: Sequence[str], among: BitMap64
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the row groups with some of the rows, in slices, each after the position of its first row."""
    dictionaries, end = opened_for_dictionaries(stream, parquet.metadata), 0
    for group in range(parquet.metadata.num_row_groups):
        start, end = end, end + parquet.metadata.row_group(group).num_rows
        if among.isdisjoint(BitMap64(range(start, end))):
            continue
        for batch in slices(parquet, dictionaries, group, names, BATCH_BYTES):
            yield start, batch
            start += batch.num_rows


def _incomplete(batch: pa.RecordBatch, parts: Sequence[Sequence[str]]) -> pa.Array:
    complete = pa.repeat(pa.scalar(value=True), batch.num_rows)
    for names in parts:
        has_value = pa.repeat(pa.scalar(value=False), batch.num_rows)
        for name in names:
            has_value = pc.or_(has_value, batch.column(name).is_valid())
        complete = pc.and_(complete, has_value)
    return pc.indices_nonzero(pc.invert(complete))


def names_of(schema: pa.Schema, mapping: NameMapping | None, wanted: Collection[int]) -> Mapping[int, str]:
    """Return the dotted paths of columns in a file by field id: by its own ids; if it has none, by the mapping.

    They are top-level ones, and fields of structs. Raises ValueError if there is neither.
    """
    own = dict(_own_paths(schema))
    if own:
        return {number: path for number, path in own.items() if number in wanted}
    if mapping is None:
        raise ValueError("the file has no field ids, and the table has no name mapping")
    return {number: path for number, path in _mapped_paths(schema, mapping.root) if number in wanted}


def _own_paths(fields: Iterable[pa.Field], around: str = "") -> Iterator[tuple[int, str]]:
    for field in fields:
        if FIELD_ID in (field.metadata or {}):
            yield int(field.metadata[FIELD_ID]), around + field.name
        if pa.types.is_struct(field.type):
            yield from _own_paths(field.type, f"{around}{field.name}.")


def _mapped_paths(
    fields: Iterable[pa.Field], mapped: Sequence[MappedField], around: str = ""
) -> Iterator[tuple[int, str]]:
    present = {field.name: field.type for field in fields}
    for each in mapped:
        for name in present.keys() & each.names:
            if each.field_id is not None:
                yield each.field_id, around + name
            if pa.types.is_struct(present[name]):
                yield from _mapped_paths(present[name], each.fields, f"{around}{name}.")


def leaves(metadata: pq.FileMetaData) -> Mapping[str, int]:
    """Return the places of a file's columns by dotted path. A field in a struct may have a column's name."""
    return {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}


def _nulls(metadata: pq.FileMetaData, column: int) -> int:
    found = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
    if not all(each is not None and each.has_null_count for each in found):
        raise ValueError(f"no statistics of column {column}")
    return sum(each.null_count for each in found)
