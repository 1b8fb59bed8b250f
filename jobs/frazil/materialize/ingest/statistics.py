"""Statistics of a data file's columns for Iceberg, from the Parquet footer.

PyIceberg's own reading of a footer goes through Python's dates, which end with the year 9999, and takes the bounds
of some row groups for those of the file where others have none (Parquet leaves out values of more than 4 KiB).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """By field id. A column without bounds may hold anything."""

    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatisticsPlan:
    """Which statistics a table has: `ids` are field ids by the paths of Parquet, `collectors` are by field id."""

    ids: Mapping[str, int]
    collectors: Mapping[int, StatisticsCollector]

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> StatisticsPlan:
        return cls(parquet_path_to_id_mapping(schema), compute_statistics_plan(schema, dict(properties)))


def file_statistics(footer: pq.FileMetaData, plan: StatisticsPlan) -> FileStatistics:
    """Return the statistics of a file from its footer. No content of a column raises an error."""
    modes, ids = plan.collectors, plan.ids
    columns: dict[int, _Column] = {}
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        for position in range(footer.num_columns):
            chunk = row_group.column(position)
            columns.setdefault(ids[chunk.path_in_schema], _Column()).add(chunk)
    counted = {n: column for n, column in columns.items() if modes[n].mode.type is not MetricModeTypes.NONE}
    bounded = {n: c for n, c in counted.items() if modes[n].mode.type is not MetricModeTypes.COUNTS and c.is_bounded}
    lower = {n: _lower(modes[n].iceberg_type, c.least, modes[n].mode.length) for n, c in bounded.items()}
    upper = {n: _upper(modes[n].iceberg_type, c.most, modes[n].mode.length) for n, c in bounded.items()}
    return FileStatistics(
        column_sizes={n: column.size for n, column in columns.items()},
        value_counts={n: column.values for n, column in counted.items()},
        null_value_counts={n: column.nulls for n, column in counted.items() if column.nulls_known},
        lower_bounds=lower,
        upper_bounds={n: bound for n, bound in upper.items() if bound is not None},
        split_offsets=tuple(sorted(_starts_at(footer.row_group(n).column(0)) for n in range(footer.num_row_groups))),
    )


@dataclass(slots=True)
class _Column:
    """One column over all row groups so far. `least` and `most` are as Parquet stores them, the first group's first."""

    size: int = 0
    values: int = 0
    nulls: int = 0
    nulls_known: bool = True
    bounds_known: bool = True
    least: list[Any] = field(default_factory=list)
    most: list[Any] = field(default_factory=list)

    @property
    def is_bounded(self) -> bool:
        return self.bounds_known and bool(self.least)

    def add(self, chunk: pq.ColumnChunkMetaData) -> None:
        self.size += chunk.total_compressed_size
        self.values += chunk.num_values
        known = chunk.statistics if chunk.is_stats_set else None
        if known is None or not known.has_null_count:
            self.nulls_known = self.bounds_known = False
            return
        self.nulls += known.null_count
        if known.has_min_max:
            self.least.append(known.min_raw)
            self.most.append(known.max_raw)
        elif known.null_count < chunk.num_values:
            self.bounds_known = False


@dataclass(slots=True)
class NanCounts:
    """Counts the NaNs of each float column, by field id; bounds leave them out (Iceberg, "Manifests").

    Without the count, an engine that deletes by bounds would take a file with NaNs for one in which every row matches.
    Columns inside lists and maps are not counted: no filter reaches them.
    """

    schema: Schema
    found: dict[int, int] = field(init=False)
    _paths: dict[int, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._paths = dict(_float_paths(self.schema.fields, []))
        self.found = dict.fromkeys(self._paths, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        for number, (first, *rest) in self._paths.items():
            values = batch.column(first)
            nans = pc.sum(pc.is_nan(pc.struct_field(values, rest) if rest else values)).as_py()
            self.found[number] += nans or 0


def _float_paths(fields: Sequence[NestedField], above: list[str]) -> Iterator[tuple[int, list[str]]]:
    for each in fields:
        path = [*above, each.name]
        if isinstance(each.field_type, FloatType | DoubleType):
            yield each.field_id, path
        elif isinstance(each.field_type, StructType):
            yield from _float_paths(each.field_type.fields, path)


def _lower(iceberg_type: PrimitiveType, least: list[Any], length: int | None) -> bytes:
    match iceberg_type:
        case DecimalType():
            return _unscaled_bytes(min(map(_unscaled, least)))
        case StringType() if length is not None:
            return bytes(min(least).decode()[:length].encode())
        case BinaryType() if length is not None:
            return bytes(min(least)[:length])
        case _:
            return _as_stored(iceberg_type, min(least))


def _upper(iceberg_type: PrimitiveType, most: list[Any], length: int | None) -> bytes | None:
    """Return a short upper bound, or None if there is none."""
    match iceberg_type:
        case DecimalType():
            return _unscaled_bytes(max(map(_unscaled, most)))
        case StringType() if length is not None:
            text = _text_above(max(most).decode(), length)
            return None if text is None else text.encode()
        case BinaryType() if length is not None:
            return truncate_upper_bound_binary_string(max(most), length)
        case _:
            return _as_stored(iceberg_type, max(most))


def _text_above(text: str, length: int) -> str | None:
    """Return the text, or a greater one of at most `length` characters; None if there is none.

    Characters are compared by code point. Surrogates are none (RFC 3629): PyIceberg's own function returns them.
    """
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following == _SURROGATES.start:
            following = _SURROGATES.stop
        if following <= sys.maxunicode:
            return text[: end - 1] + chr(following)
    return None


def _as_stored(iceberg_type: PrimitiveType, raw: Any) -> bytes:
    return bytes(raw) if isinstance(raw, bytes) else to_bytes(iceberg_type, raw)


def _unscaled(raw: Any) -> int:
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)


def _unscaled_bytes(value: int) -> bytes:
    """Return the two's complement in the fewest bytes (Iceberg, "Binary single-value serialization")."""
    bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _starts_at(chunk: pq.ColumnChunkMetaData) -> int:
    has_dictionary = chunk.has_dictionary_page and chunk.dictionary_page_offset < chunk.data_page_offset
    return int(chunk.dictionary_page_offset if has_dictionary else chunk.data_page_offset)
