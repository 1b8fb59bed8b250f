"""Arrow batches become Parquet files with Iceberg's field ids: partitioned, sorted, and rolled at the target size."""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputStream
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, UUIDType

from frazil.materialize.ingest.sorting import Arrangement
from frazil.materialize.ingest.statistics import NanCounts, StatisticsPlan, file_statistics
from frazil.materialize.ingest.storage import open_storage
from frazil.materialize.ingest.stored_schema import arrow_schema, iceberg_schema
from frazil.materialize.ingest.transformed import transformed
from frazil.model.ingested import FollowedRows, WriteTarget, WrittenFile
from frazil.model.secret import SettingValue
from frazil.modes.followed import FollowedColumns

ROW_GROUP_ROWS = 262_144
"""Rows of a row group: each write of one costs about the same, so small ones are gathered first."""

SORTED_ROW_GROUP_ROWS = ROW_GROUP_ROWS // 4
"""Rows of a row group in a table with a sort order: gathered rows are sorted together, then divided, so that the
statistics of each row group are of a part of the values."""

ROW_GROUP_BYTES = 128 << 20
"""Bytes in memory of a row group, where its rows are wide. A file of a small target gets smaller ones."""

PAGE_BYTES = 1 << 20
"""Bytes of one column after which a page may end: the writer checks after each batch, at the latest after 1,024 rows.

A reader holds whole pages, and 1,024 values of 900 KB each would be one.
"""

BUFFERED_ROWS = 4 * ROW_GROUP_ROWS
BUFFERED_BYTES = 4 * ROW_GROUP_BYTES
"""What is held over all partitions before the fullest is written out."""

LONGEST_FOLDER = 120
"""Characters of a partition's folder, which are ASCII: file systems take 255 bytes, and S3 1,024 for the whole key."""

FILES_OPEN = 32
"""Each costs a descriptor, and on S3 a part of an upload in memory; random stamps have a day, and a file, each."""

WITH_LEVELS = ("zstd", "gzip", "brotli", "lz4")
"""Codecs that take a level: Arrow refuses one with snappy, and without a codec."""

DICTIONARY_BYTES = 128 << 10
"""Above this a column of mostly distinct strings falls back to plain pages: faster and smaller than 1 MiB."""


class DataFileWriter:
    """Writes the files of one table for one task. `close` returns them; do not use them before."""

    def __init__(
        self,
        target: WriteTarget,
        *,
        storage: Mapping[str, SettingValue],
        prefix: str,
        target_bytes: int,
        following: FollowedColumns | None = None,
        distinct: Collection[str] = (),
        sorted_bytes: int = 0,
        z_order: Sequence[str] = (),
    ) -> None:
        """Open no file yet. With `following`, `followed` has what these columns hold of each row.

        If columns are `distinct`, they get no dictionaries, since few of their values are alike, and only they are
        compressed. If the table has an order, rows of up to `sorted_bytes` are gathered before they are sorted. If it
        has none, they are put in the z-order of columns, if any are given.
        """
        self._schema, self._spec = iceberg_schema(target.schema_json), _partition_spec(target.partition_spec_json)
        self._out = _Output(
            target,
            self._schema,
            self._spec.spec_id,
            storage,
            prefix,
            target_bytes,
            following,
            distinct,
            sorted_bytes,
            z_order,
        )
        self.followed: list[FollowedRows] = []
        self._open: dict[tuple[object, ...], _OpenFile] = {}
        self._files: list[WrittenFile] = []
        self.arrow_schema = self._out.arrow_schema

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in the table's schema (`arrow_schema`, names and types)."""
        for values, part in self._split(batch):
            identity = tuple(map(_identity, values))
            if identity not in self._open:
                self._open[identity] = _OpenFile(self._out, values, self._key(values))
            file = self._open[identity]
            file.add(part)
            if file.full:
                self._end(file)
                del self._open[identity]
        while len(self._open) > 1 and self._holds_too_much():
            max(self._open.values(), key=lambda file: file.buffered_bytes).flush()
            self._end_one_too_many()

    def _end_one_too_many(self) -> None:
        """End the longest file where too many are open: rows of a partition that has ended begin another file."""
        writing = [(identity, file) for identity, file in self._open.items() if file.writing]
        if len(writing) > FILES_OPEN:
            identity, _ = max(writing, key=lambda each: each[1].written_bytes)
            self._end(self._open.pop(identity))

    def _holds_too_much(self) -> bool:
        files = self._open.values()
        too_many = sum(file.buffered for file in files) > BUFFERED_ROWS
        return too_many or sum(file.buffered_bytes for file in files) > BUFFERED_BYTES

    def close(self) -> tuple[WrittenFile, ...]:
        for file in self._open.values():
            self._end(file)
        self._open = {}
        return tuple(self._files)

    def _end(self, file: _OpenFile) -> None:
        self._files.append(file.close())
        self.followed += file.followed()

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[object, ...], pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        if self._spec.is_unpartitioned():
            yield (), batch
            return
        columns = [transformed(batch, self._schema, field.source_id, field.transform) for field in self._spec.fields]
        names = [str(n) for n in range(len(columns))]
        keys = pa.table(columns, names=names).append_column("row", pa.array(range(batch.num_rows), pa.int64()))
        groups = keys.group_by(names, use_threads=False).aggregate([("row", "list")])
        kinds = [each.field_type for each in self._spec.partition_type(self._schema).fields]
        for group in groups.to_pylist():
            values = tuple(_as_held(group[name], kind) for name, kind in zip(names, kinds, strict=True))
            rows = pa.array(group["row_list"], pa.int64())
            yield values, batch if len(rows) == batch.num_rows else batch.take(rows)

    def _key(self, values: tuple[object, ...]) -> PartitionKey | None:
        if not values:
            return None
        pairs = zip(self._spec.fields, values, strict=True)
        fields = [PartitionFieldValue(field=f, value=v) for f, v in pairs]
        return _RawPartitionKey(field_values=fields, partition_spec=self._spec, schema=self._schema)


class _RawPartitionKey(PartitionKey):
    """A partition key of values that are already transformed and in Iceberg's own representation."""

    @property
    def partition(self) -> Record:
        return Record(*(each.value for each in self.field_values))

    def to_path(self) -> str:
        """Return the path of the partition for people; readers use the manifest. Long names are cut."""
        return "/".join(map(_shortened, self._path().split("/")))

    def _path(self) -> str:
        try:
            return super().to_path()
        except (OverflowError, ValueError):  # a date that Python has no words for
            pairs = ((each.field.name, each.value) for each in self.field_values)
            return "/".join(f"{quote_plus(name)}={quote_plus(str(value))}" for name, value in pairs)


def writer_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `pq.ParquetWriter` for a table with these properties (docs/decisions/0028)."""
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    level = int(properties.get("write.parquet.compression-level", "1"))
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": level if codec in WITH_LEVELS else None,
        "store_schema": False,
        "write_page_index": True,
        "dictionary_pagesize_limit": DICTIONARY_BYTES,
    }


def _settings_of_distinct(settings: Mapping[str, Any], schema: pa.Schema, distinct: Collection[str]) -> dict[str, Any]:
    """Return what differs where these columns have no dictionaries, and only they are compressed.

    The others have few values: their pages are small, and each page takes about 20 µs to compress.
    """
    leaves = [path for field in schema if field.name in distinct for path in _leaves(field.name, field.type)]
    level = settings["compression_level"]
    return {
        "use_dictionary": [name for name in schema.names if name not in distinct],
        "compression": dict.fromkeys(leaves, settings["compression"]),
        "compression_level": None if level is None else dict.fromkeys(leaves, level),
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a column's leaves as Parquet has them."""
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _leaves(f"{path}.{each.name}", each.type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


@lru_cache(maxsize=64)
def _statistics_plan(schema_json: str, properties: tuple[tuple[str, str], ...]) -> StatisticsPlan:
    """Return the same plan for all tasks of a process: making it is a good part of what a small file costs."""
    return StatisticsPlan.of(iceberg_schema(schema_json), dict(properties))


@lru_cache(maxsize=64)
def _partition_spec(spec_json: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(spec_json)


def _shortened(folder: str) -> str:
    """Cut between two escapes."""
    return folder if len(folder) <= LONGEST_FOLDER else re.sub("%[0-9A-F]?$", "", folder[:LONGEST_FOLDER])


def _as_held(value: object, iceberg_type: IcebergType) -> object:
    """A partition's value, as one hashable thing: Arrow groups a uuid by its bytes."""
    return UUID(bytes=value) if isinstance(iceberg_type, UUIDType) and isinstance(value, bytes) else value


def _identity(value: object) -> object:
    """Return the value that distinguishes partitions: 0.0 and -0.0 differ, and all NaNs are equal."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else struct.pack(">d", value)


@dataclass(slots=True)
class _Output:
    """The target of one table's files: storage, locations and Parquet settings."""

    target: WriteTarget
    schema: Schema
    spec_id: int
    storage: Mapping[str, SettingValue]
    prefix: str
    target_bytes: int
    following: FollowedColumns | None
    distinct: Collection[str]
    sorted_bytes: int
    z_order: Sequence[str]
    io: FileIO = field(init=False)
    locations: LocationProvider = field(init=False)
    arrangement: Arrangement = field(init=False)
    arrow_schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self.io = open_storage(self.storage, self.target.location, table_properties=self.target.properties)
        self.locations = load_location_provider(self.target.location, dict(self.target.properties))
        self.arrangement = Arrangement.of(self.schema, self.target.sort_order_json, self.z_order)
        self.arrow_schema = arrow_schema(self.target.schema_json)

    @property
    def statistics_plan(self) -> StatisticsPlan:
        return _statistics_plan(self.target.schema_json, tuple(self.target.properties.items()))

    def row_group_rows(self, buffered: int) -> int:
        """Return how many of the buffered rows are in one row group."""
        groups = 1 if not self.arrangement.moves_rows else max(1, buffered // SORTED_ROW_GROUP_ROWS)
        return math.ceil(buffered / groups)

    def new_path(self, key: PartitionKey | None) -> str:
        return self.locations.new_data_location(f"{self.prefix}-{uuid.uuid4().hex}.parquet", key)

    def parquet(self, stream: OutputStream) -> pq.ParquetWriter:
        settings = writer_settings(self.target.properties)
        if self.distinct:
            settings |= _settings_of_distinct(settings, self.arrow_schema, self.distinct)
        return pq.ParquetWriter(stream, self.arrow_schema, **settings)


class _OpenFile:
    """One Parquet file being written."""

    def __init__(self, out: _Output, values: tuple[object, ...], key: PartitionKey | None) -> None:
        self._out = out
        self._values = values
        self._path = out.new_path(key)
        self._batches: list[pa.RecordBatch] = []
        self._followed: list[pa.RecordBatch] = []
        self._stream: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._nans = NanCounts(out.schema)
        self._written_bytes = 0
        self._flushes = 0
        self._most_rows, self._most_bytes = ROW_GROUP_ROWS, min(ROW_GROUP_BYTES, 2 * out.target_bytes)
        if out.sorted_bytes and out.arrangement.moves_rows:
            self._most_rows, self._most_bytes = BUFFERED_ROWS, out.sorted_bytes
        self.buffered = 0
        self.buffered_bytes = 0

    @property
    def full(self) -> bool:
        return self._written_bytes >= self._out.target_bytes

    @property
    def writing(self) -> bool:
        return self._stream is not None

    @property
    def written_bytes(self) -> int:
        return self._written_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._nans.add(batch)
        self.buffered += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if self.buffered >= self._most_rows or self.buffered_bytes >= self._most_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered, sorted if the table has an order."""
        if not self.buffered:
            return
        if self._writer is None:
            self._stream = self._out.io.new_output(self._path).create(overwrite=True)
            self._writer = self._out.parquet(self._stream)
        ordered = self._out.arrangement.of_rows(self._batches)
        if self._out.following is not None:
            self._followed += [self._out.following.of_rows(batch) for batch in ordered]
        parts = [part for batch in ordered for part in _page_sized(batch)]
        self._batches = []
        self._writer.write_table(pa.Table.from_batches(parts), row_group_size=self._out.row_group_rows(self.buffered))
        self._written_bytes = int(self._stream.tell())
        self._flushes += 1
        self.buffered = self.buffered_bytes = 0

    def followed(self) -> Iterator[FollowedRows]:
        """Yield what is followed of the rows that are written."""
        if self._out.following is not None:
            yield FollowedRows(self._path, self._out.following.joined(self._followed))

    def close(self) -> WrittenFile:
        self.flush()
        assert self._writer is not None and self._stream is not None  # noqa: S101 - a file is opened for rows
        self._writer.close()
        metadata: pq.FileMetaData = self._writer.writer.metadata
        size = self._stream.tell()
        self._stream.close()
        statistics = file_statistics(metadata, self._out.statistics_plan)
        return WrittenFile(
            path=self._path,
            rows=metadata.num_rows,
            size=size,
            partition=self._values,
            spec_id=self._out.spec_id,
            column_sizes=statistics.column_sizes,
            value_counts=statistics.value_counts,
            null_value_counts=statistics.null_value_counts,
            nan_value_counts=self._nans.found,
            lower_bounds=statistics.lower_bounds,
            upper_bounds=statistics.upper_bounds,
            split_offsets=statistics.split_offsets,
            sort_order_id=self._out.arrangement.sort_order_id if self._flushes == 1 else None,
        )


def _page_sized(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of the batch, halved until no column exceeds `PAGE_BYTES` or the part has one row."""
    is_small = batch.nbytes <= PAGE_BYTES or max(column.nbytes for column in batch.columns) <= PAGE_BYTES
    if batch.num_rows <= 1 or is_small:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _page_sized(batch.slice(0, half))
    yield from _page_sized(batch.slice(half))
