"""What other writers do to columns of a small table, and the repair that docs/operate.md gives."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.compute as pc
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
    """Run the Python of docs/operate.md, A column that was made again, and the like of its SQL."""
    code = next(part for part in _blocks("python") if "restore_columns" in part)
    assert "lake.orders" in code
    exec(code.replace("lake.orders", identifier), {"catalog": lake.lake.catalog})
    merge_restored(lake.lake.catalog.load_table(identifier))
    lake.restart()


def sql_of_the_repair() -> list[str]:
    """The statements of docs/operate.md, A column that was made again."""
    return next(part for part in _blocks("sql") if "coalesce(kafka_offset" in part).strip().removesuffix(";").split(";")


def _blocks(language: str) -> list[str]:
    text = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    return [dedent(part.partition("```")[0]) for part in text.split(f"```{language}\n")[1:]]


def merge_restored(table: Table) -> None:
    """Copy `kafka_offset_5` into `kafka_offset` where that is null, and drop it, for each column of such a name."""
    rows = table.scan().to_arrow()
    again = [name for name in rows.column_names if re.fullmatch(r".+_\d+", name)]
    for name in reversed(again):
        to = rows.schema.get_field_index(name.rpartition("_")[0])
        values = pc.coalesce(rows.column(to), rows[name].cast(rows.column(to).type))
        rows = rows.set_column(to, rows.schema.field(to), values)
    if again:
        table.overwrite(rows)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in again:
            update.delete_column(name)


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
