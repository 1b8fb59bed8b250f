"""Find the rows of a table that have one of a batch's identities (docs/decisions/0036).

The first half of the identity is read of every row, except in row groups which have no such row by their statistics:
this leaves out many where the rows are sorted by it and a batch has few records. What else is wanted is read only in
row groups with a row that may match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, IsNull, LessThanOrEqual, Or
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from frazil.adapters.iceberg.delete_files import names_one_file
from frazil.adapters.iceberg.deleted_positions import DeletedPositions
from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.scan import all_of, planned, reading
from frazil.adapters.iceberg.source_nulls import leaves, names_of
from frazil.adapters.iceberg.undecodable import decoding
from frazil.materialize.ingest.storage import open_storage
from frazil.model.errors import CatalogError
from frazil.model.probe import DeleteFile, FoundRows, IdentityColumns, ProbeTask, StoredFile, Within
from frazil.model.snapshot import TableView
from frazil.modes.identified import value_at
from frazil.modes.order import LEAST, as_order
from frazil.modes.validity import OPEN
from frazil.modes.wanted import Numbers, Wanted, as_array, as_numbers
from frazil.proof.sources import numbered

BUFFER_BYTES = 1 << 20
NAME_MAPPING = "schema.name-mapping.default"


def _range_of(column: str, least: int, greatest: int) -> BooleanExpression:
    inside = And(GreaterThanOrEqual(term=column, value=least), LessThanOrEqual(term=column, value=greatest))
    return Or(IsNull(term=column), inside)


def stored_files(view: TableView, within: Within | None = None) -> tuple[StoredFile, ...]:
    """Return the data files of a view's head, without those that have no row `within` by their statistics.

    Raises CatalogError, also if rows are deleted by equality.
    """
    ranges = [_range_of(name, *bounds) for name, bounds in (within or {}).items()]
    with reading(view.identifier):
        tasks = planned(view.current.scan(row_filter=all_of(ranges), snapshot_id=view.head))
    for task in tasks:
        for file in task.delete_files:
            if file.content is not DataFileContent.POSITION_DELETES:
                raise CatalogError(
                    f"{view.identifier}: {file.file_path} deletes rows by equality, and Frazil cannot find the others",
                    hint="rewrite the table's data files with the engine that wrote it, which applies these deletes",
                )
    return tuple(
        StoredFile(
            task.file.file_path,
            task.file.record_count,
            tuple(sorted(map(_delete_file, task.delete_files), key=lambda each: each.path)),
            task.file.file_size_in_bytes,
            _partition_of(task.file),
        )
        for task in tasks
    )


def _partition_of(file: DataFile) -> tuple[object, ...]:
    values = file.partition
    return file.spec_id, *(values[field] for field in range(len(values)))


def _delete_file(file: DataFile) -> DeleteFile:
    return DeleteFile(file.file_path, file.file_format.value, file.record_count, names_one_file(file))


def probe(task: ProbeTask) -> list[FoundRows]:
    """Return the live rows that are wanted, for each file that has any. Raises CatalogError."""
    io = open_storage(task.storage, task.location, table_properties=task.properties)
    wanted = Wanted(as_numbers(task.first), as_numbers(task.second))
    mapping = task.properties.get(NAME_MAPPING)
    names = None if mapping is None else parse_mapping_from_json(mapping)
    found = []
    with reading(task.table):
        for file in task.files:
            deleted = DeletedPositions(io, file)
            with decoding(io, file.path):
                parts = list(_found_in(io, file, task.columns, wanted, names, deleted))
            if parts:
                found.append(_found_rows(deleted, pa.Table.from_batches(parts)))
    return found


def _found_rows(deleted: DeletedPositions, rows: pa.Table) -> FoundRows:
    file = deleted.file
    own = deleted.own if file.is_crowded else np.empty(0, np.int64)
    position, place, partition, offset, *order = (as_array(column.to_numpy()) for column in rows.columns)
    left = file.rows - len(deleted.all)
    return FoundRows(file, left, as_array(own), position, place, partition, offset, tuple(order))


def _found_in(
    io: FileIO,
    file: StoredFile,
    columns: IdentityColumns,
    wanted: Wanted,
    mapping: NameMapping | None,
    deleted: DeletedPositions,
) -> Iterator[pa.RecordBatch]:
    with io.new_input(file.path).open() as stream:
        parquet = pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER_BYTES)
        names = names_of(parquet.schema_arrow, mapping, columns.read)
        if not columns.needed <= names.keys():
            return  # another writer's: its rows have no identity, or come from no record
        start, first = 0, leaves(parquet.metadata)[names[columns.first]]
        for group in range(parquet.metadata.num_row_groups):
            may_match = _may_match(parquet.metadata.row_group(group).column(first).statistics, wanted)
            rows = _rows_of(parquet, group, columns, names, wanted) if may_match else None
            if rows is not None and rows.num_rows:
                yield from _live(rows, start, deleted.all)
            start += parquet.metadata.row_group(group).num_rows


def _may_match(first: pq.Statistics | None, wanted: Wanted) -> bool:
    """Return whether a row group may have a row that is wanted, by the statistics of the identity's first half."""
    return first is None or not first.has_min_max or wanted.any_within(first.min, first.max)


def _rows_of(
    parquet: pq.ParquetFile, group: int, columns: IdentityColumns, names: Mapping[int, str], wanted: Wanted
) -> pa.RecordBatch | None:
    """Return the rows of a row group that are wanted, at their positions in the group; None if there is none."""
    first = _column(parquet, group, names[columns.first])
    likely, begin = wanted.candidates(_longs(first))
    if not len(likely):
        return None
    halves = [half.take(pa.array(likely)) for half in (first, _column(parquet, group, names[columns.second]))]
    places = wanted.find(_longs(halves[0]), _longs(halves[1]), begin)
    for half in halves:
        if half.null_count:
            places[half.is_null().to_numpy(zero_copy_only=False)] = -1
    at = pa.array(likely[places >= 0])
    values = {
        number: as_order(_column(parquet, group, names[number]).take(at)) if number in names else _no_order(len(at))
        for number in columns.found
    }
    if columns.topic is not None:
        name = names.get(columns.topic)
        topics = pa.nulls(len(at), pa.string()) if name is None else _column(parquet, group, name).take(at)
        values[columns.partition] = numbered(columns.numbers, topics, values[columns.partition])
    if columns.end is None:
        values |= {number: values[number].fill_null(LEAST) for number in columns.order}
    else:
        values[columns.end] = values[columns.end].fill_null(OPEN)
    return _in_columns([at, pa.array(places[places >= 0]), *values.values()]).drop_null()


def _no_order(rows: int) -> pa.Int64Array:
    return pa.nulls(rows, pa.int64())


def _in_columns(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def _column(parquet: pq.ParquetFile, group: int, path: str) -> pa.Array:
    column = parquet.read_row_group(group, columns=[path], use_threads=False).column(0)
    top = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return value_at({path.partition(".")[0]: top}, path)


def _longs(values: pa.Array) -> Numbers:
    return np.asarray(values.fill_null(0).to_numpy(), np.int64) if values.null_count else values.to_numpy()


def _live(rows: pa.RecordBatch, start: int, deleted: Positions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group that begins at `start`, at their positions in the file, if any is not deleted."""
    positions = rows.column(0).to_numpy() + start
    here = _in_columns([pa.array(positions), *rows.columns[1:]])
    kept = ~np.isin(positions, deleted, assume_unique=True)
    if kept.any():
        yield here if kept.all() else here.filter(pa.array(kept))
