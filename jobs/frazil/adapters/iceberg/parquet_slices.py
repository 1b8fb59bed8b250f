"""Decode a row group in slices whose size in memory is bounded before they are decoded.

Parquet's footer has the *encoded* size of a column chunk. A dictionary holds a value once for any number of rows, so
200 KB may decode to gigabytes. What a slice takes is bounded by:

- the width of numbers and fixed-size values, and the longest value of a dictionary, which is read first: exact for
  columns that are not in lists or maps;
- the encoded size of the whole chunk, for plain values: their distribution over the rows is unknown;
- `FEW_ROWS` a slice, where none of these is below `slice_bytes`. The number of rows then follows what the slices
  measure: it doubles, or falls to what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SLICE_BYTES = 16 << 20
MOST_ROWS = 64_000

FEW_ROWS = 128
"""Each slice of 25 columns costs about 0.3 ms without Arrow's threads, and twice as much with them.

With values of 1 MB, the usual limit of a record in Kafka, these rows are 128 MB.
"""

VALUE_BYTES = 16
"""What a value takes at most, without the bytes of text and binary: a decimal, or an offset into them."""

PROBE_BYTES = 64 << 10
"""Read-ahead for a dictionary and one row."""

_AS_LONG_AS_VALUES = frozenset({"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY"})
_DICTIONARY = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})


_Longest = Callable[[Any], int | None]
"""Takes a column chunk and returns the bytes of the longest value of its dictionary, or None if that is unknown."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column chunk: its values, and its size as the footer has it.

    `width` is the size of the largest value, without the plain values of a text or binary column; None if its encoding,
    such as DELTA_BYTE_ARRAY, leaves that open, or if the library does not give its dictionary. `text` says that its
    values have no fixed width, `repeated` that they are in lists or maps.
    """

    values: int
    encoded: int
    width: int | None
    text: bool
    repeated: bool

    @property
    def decoded(self) -> int:
        """Bytes of the whole chunk, at most, where that is known."""
        return self.values * (VALUE_BYTES + (self.width or 0)) + (self.encoded if self.text else 0)

    @property
    def anywhere(self) -> int:
        """The bytes that may all belong to a few rows: those of lists and of texts."""
        if self.repeated:
            return self.decoded
        return self.encoded if self.text else 0


def rows_of_slices(
    leaves: Sequence[ColumnChunk], rows: int, batch_bytes: int, slice_bytes: int = SLICE_BYTES
) -> tuple[int, int]:
    """Return how many rows the first slice has, and how many any slice has at most."""
    of_each_row = sum(VALUE_BYTES + (leaf.width or 0) for leaf in leaves if not leaf.repeated)
    most = min(MOST_ROWS, slice_bytes // max(of_each_row, 1))
    if any(leaf.width is None for leaf in leaves) or sum(leaf.anywhere for leaf in leaves) > slice_bytes:
        most = min(most, FEW_ROWS)
    mean = sum(leaf.decoded for leaf in leaves) // max(rows, 1)
    return max(min(most, batch_bytes // max(mean, 1)), 1), max(most, 1)


def slices(
    parquet: pq.ParquetFile,
    dictionaries: pq.ParquetFile,
    group: int,
    columns: Sequence[str],
    batch_bytes: int,
    slice_bytes: int = SLICE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a row group in slices of about `batch_bytes`; `dictionaries` is the same file.

    No slice takes more than `slice_bytes`, unless `FEW_ROWS` rows do.
    """
    of_group = parquet.metadata.row_group(group).num_rows
    largest = _leaves(parquet, group, columns, _longest_at_most)
    rows, most = rows_of_slices(largest, of_group, batch_bytes, slice_bytes)
    if rows < of_group:
        leaves = _leaves(parquet, group, columns, partial(_longest, dictionaries, group))
        rows, most = rows_of_slices(leaves, of_group, batch_bytes, slice_bytes)
    for read in parquet.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
        part = _without_dictionaries(read)
        yield part
        fitting = part.num_rows * batch_bytes // max(part.nbytes, 1)
        rows = max(min(2 * rows, fitting, most), 1)
        parquet.reader.set_batch_size(rows)


def _without_dictionaries(part: pa.RecordBatch) -> pa.RecordBatch:
    """Decode columns of dictionary types: a slice of one would share, and count, the whole dictionary."""
    schema = pa.schema(map(_plain_field, part.schema))
    return part if schema.equals(part.schema) else part.cast(schema)


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    return kind


def opened_for_dictionaries(stream: Any, metadata: pq.FileMetaData) -> pq.ParquetFile:
    """Open a file so that it gives text and binary columns as dictionaries."""
    leaves = (metadata.schema.column(n) for n in range(metadata.num_columns))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(stream, metadata=metadata, read_dictionary=paths, pre_buffer=False, buffer_size=PROBE_BYTES)


def _leaves(parquet: pq.ParquetFile, number: int, columns: Sequence[str], longest: _Longest) -> tuple[ColumnChunk, ...]:
    group = parquet.metadata.row_group(number)
    paths = [group.column(n).path_in_schema for n in range(group.num_columns)]
    shared = {path for path, count in Counter(paths).items() if count > 1}
    return tuple(
        _leaf(parquet.metadata.schema.column(n), group.column(n), _unknown if path in shared else longest)
        for n, path in enumerate(paths)
        if _is_of(path, columns)
    )


def _unknown(chunk: Any) -> None:
    """Return nothing for a column that has the same path as another: `a.b` beside a struct `a`."""


def _leaf(column: Any, chunk: Any, longest: _Longest) -> ColumnChunk:
    text = chunk.physical_type == "BYTE_ARRAY"
    return ColumnChunk(
        values=chunk.num_values,
        encoded=chunk.total_uncompressed_size,
        width=_of_text(chunk, longest) if text else max(column.length, 0),
        text=text,
        repeated=column.max_repetition_level > 0,
    )


def _is_of(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _of_text(chunk: Any, longest: _Longest) -> int | None:
    """Return the bytes of the longest value of a chunk's dictionary, 0 without one; None if that is unknown."""
    encodings = set(chunk.encodings)
    if not encodings <= _AS_LONG_AS_VALUES | _DICTIONARY:
        return None
    return 0 if not encodings & _DICTIONARY or _is_all_null(chunk) else longest(chunk)


def _longest_at_most(chunk: Any) -> int:
    """The bytes of the chunk, in which the dictionary is: enough to know that a small row group is one slice."""
    return int(chunk.total_uncompressed_size)


def _longest(dictionaries: pq.ParquetFile, group: int, chunk: Any) -> int | None:
    """The library gives no dictionary for a first list that is empty, nor for some types, such as fixed-size lists."""
    first = next(dictionaries.iter_batches(1, row_groups=[group], columns=[chunk.path_in_schema]), None)
    found = [] if first is None else [each for column in first.columns for each in _dictionaries(column)]
    if len(found) != 1 or not len(found[0]):
        return None
    return int(pc.max(pc.binary_length(found[0])).as_py() or 0)


def _is_all_null(chunk: Any) -> bool:
    """Return whether the chunk has only nulls and empty lists, by its footer."""
    found = chunk.statistics
    return found is not None and found.has_null_count and found.null_count == chunk.num_values


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_dictionary(column.type):
        yield column.dictionary
    elif pa.types.is_struct(column.type):
        for n in range(column.type.num_fields):
            yield from _dictionaries(column.field(n))
    elif pa.types.is_map(column.type):
        yield from _dictionaries(column.keys)
        yield from _dictionaries(column.items)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        yield from _dictionaries(column.values)
