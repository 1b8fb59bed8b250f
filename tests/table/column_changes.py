"""What other writers do to columns of a small table, and the repair that docs/operate.md gives."""

from __future__ import annotations

import uuid
from pathlib import Path
from textwrap import dedent

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
from pyiceberg.types import IcebergType

from tests.table.small_lake import SmallLake


def make_again(lake: SmallLake, identifier: str, *columns: str, kind: IcebergType | None = None) -> None:
    """Drop columns and add them, as another writer does; the values stay in the files."""
    table = lake.lake.catalog.load_table(identifier)
    kinds = {column: kind or table.schema().find_type(column) for column in columns}
    with table.update_schema(allow_incompatible_changes=True) as update:
        for column in columns:
            update.delete_column(column)
    with table.update_schema() as update:
        for column, its_kind in kinds.items():
            update.add_column(column, its_kind)
    lake.restart()


def restore(lake: SmallLake, identifier: str) -> None:
    """Run the code of docs/operate.md, A column that was made again."""
    text = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    code = next(part for part in text.split("```python\n") if "restore_columns" in part).partition("```")[0]
    assert "lake.orders__dead_letters" in code
    exec(dedent(code.replace("lake.orders__dead_letters", identifier)), {"catalog": lake.lake.catalog})
    lake.restart()


class _OfDeletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


class _MarkRows(_FastAppendFiles):
    """A merge-on-read delete: PyIceberg writes none."""

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        with _OfDeletes(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, "deflate"
        ) as writer:
            for file in self._added_data_files:
                status = ManifestEntryStatus.ADDED
                writer.add(ManifestEntry.from_args(status=status, snapshot_id=self._snapshot_id, data_file=file))
        return [writer.to_manifest_file(), *self._existing_manifests()]


def mark_all_deleted(table: Table, folder: Path) -> None:
    """Delete all rows as merge-on-read engines do: their files stay."""
    with table.transaction() as transaction:
        marks = _MarkRows(Operation.DELETE, transaction, table.io, uuid.uuid4(), {})
        for number, task in enumerate(table.scan().plan_files()):
            marks.append_data_file(_all_of(task.file, folder / f"marks-{number}.parquet"))
        marks.commit()


def _all_of(data: DataFile, path: Path) -> DataFile:
    positions = pa.array(range(data.record_count), pa.int64())
    pq.write_table(pa.table({"file_path": [data.file_path] * len(positions), "pos": positions}), path)
    marks = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=data.partition,
        record_count=len(positions),
        file_size_in_bytes=path.stat().st_size,
    )
    marks.spec_id = data.spec_id
    return marks
