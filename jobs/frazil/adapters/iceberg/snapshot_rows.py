"""The rows that single snapshots added (`outputs.ports.OutputRows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from frazil.adapters.iceberg.scan import TableScan
from frazil.model.snapshot import TableView


class SnapshotRows:
    """Reads the files of a view's table."""

    def added(self, view: TableView, snapshot_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return TableScan(view, columns=columns, added_by=snapshot_id).slices()
