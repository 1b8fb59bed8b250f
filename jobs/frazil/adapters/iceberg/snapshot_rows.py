"""The rows that single snapshots added and took out (`outputs.ports.OutputRows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from frazil.adapters.iceberg.position_deletes import Positions, positions_in
from frazil.adapters.iceberg.rows_at import rows_at, rows_without
from frazil.adapters.iceberg.scan import TableScan, planned, reading
from frazil.materialize.ingest.write import ROW_GROUP_BYTES
from frazil.model.snapshot import TableView


class SnapshotRows:
    """Reads the files of a view's table. What is decoded at once may take as much as a row group that is written."""

    def added(self, view: TableView, snapshot_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return TableScan(view, columns=columns, added_by=snapshot_id).slices(ROW_GROUP_BYTES)

    def removed(self, view: TableView, snapshot_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        parent, table = view.snapshots[snapshot_id].parent_id, view.current
        projection = table.schema().select(*columns)
        with reading(view.identifier):
            now = _files(table, snapshot_id)
            before = _files(table, parent) if parent is not None else {}
            for path in sorted(before):
                yield from _taken_out(table, before[path], now.get(path), projection)


def _files(table: Table, snapshot_id: int) -> dict[str, FileScanTask]:
    return {task.file.file_path: task for task in planned(table.scan(snapshot_id=snapshot_id))}


def _taken_out(
    table: Table, before: FileScanTask, now: FileScanTask | None, projection: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that a snapshot no longer has: it marks them as deleted, or lacks the file."""
    path, mapping = before.file.file_path, table.name_mapping()
    if now is None:
        yield from rows_without(table.io, path, _deleted(table, before), projection, mapping)
    elif _names(now) != _names(before):
        gone = np.setdiff1d(_deleted(table, now), _deleted(table, before), assume_unique=True)
        yield from rows_at(table.io, path, gone, projection, mapping)


def _deleted(table: Table, task: FileScanTask) -> Positions:
    return positions_in(table.io, task.delete_files, task.file.file_path)


def _names(task: FileScanTask) -> set[str]:
    return {file.file_path for file in task.delete_files}
