"""Delete rows of a table as merge-on-read engines do: PyIceberg writes no position deletes by itself."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


class _AppendDeleteFiles(_FastAppendFiles):
    """A commit of delete files only. The data files stay."""

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        with _DeleteManifestWriter(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, "deflate"
        ) as writer:
            for file in self._added_data_files:
                status = ManifestEntryStatus.ADDED
                writer.add(ManifestEntry.from_args(status=status, snapshot_id=self._snapshot_id, data_file=file))
        return [writer.to_manifest_file(), *self._existing_manifests()]


def delete_rows(table: Table, folder: Path, *, one_in: int = 1) -> None:
    """Delete the first row of each `one_in` rows of every data file, with delete files in `folder`."""
    files = [task.file for task in table.scan().plan_files()]
    delete_positions(table, folder, {file: range(0, file.record_count, one_in) for file in files})


def delete_positions(table: Table, folder: Path, positions: Mapping[DataFile, range]) -> None:
    """Delete the rows at these positions of data files, with delete files in `folder`."""
    with table.transaction() as transaction:
        commit = _AppendDeleteFiles(Operation.DELETE, transaction, table.io, uuid.uuid4(), {})
        for file, rows in positions.items():
            commit.append_data_file(_delete_file(file, rows, folder / f"deletes-{uuid.uuid4()}.parquet"))
        commit.commit()


def delete_together(table: Table, path: Path, positions: Mapping[DataFile, range]) -> None:
    """Delete the rows at these positions of data files of one partition, with one delete file, which has no bounds."""
    parts = sorted(positions.items(), key=lambda each: str(each[0].file_path))
    names = pa.array([file.file_path for file, rows in parts for _ in rows])
    rows = pa.array([row for _, of_file in parts for row in of_file], pa.int64())
    pq.write_table(pa.table({"file_path": names, "pos": rows}, schema=_WITH_IDS), path)
    with table.transaction() as transaction:
        commit = _AppendDeleteFiles(Operation.DELETE, transaction, table.io, uuid.uuid4(), {})
        commit.append_data_file(_described(parts[0][0], len(rows), path))
        commit.commit()


_WITH_IDS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def _delete_file(data: DataFile, positions: range, path: Path) -> DataFile:
    names = pa.array([data.file_path] * len(positions))
    pq.write_table(pa.table({"file_path": names, "pos": pa.array(positions, pa.int64())}), path)
    return _described(data, len(positions), path)


def _described(data: DataFile, rows: int, path: Path) -> DataFile:
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{path.absolute()}",
        file_format=FileFormat.PARQUET,
        partition=data.partition,
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
    )
    deletes.spec_id = data.spec_id
    return deletes
