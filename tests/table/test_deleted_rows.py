"""Rows taken out by position, in the snapshot that adds others (test_spark_beside.py has Spark read them, too)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.errors import CommitRejectedError
from frazil.model.ingested import DeletedRows, DroppedFile
from frazil.model.settings import CatalogSettings
from tests.table.trades_by_symbol import PATH_ID, ROWS, Trades, new_trades


@pytest.fixture
def trades(tmp_path: Path) -> Trades:
    return new_trades(tmp_path)


def test_the_summary_counts_what_was_deleted_and_the_view_what_is_left(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    (new,) = trades.files("b", [1])

    trades.publish([new], [DeletedRows(old.path, [3, 4])])

    head = trades.view.snapshots[trades.view.head or 0]
    named = ("added-records", "added-position-deletes", "added-delete-files", "total-position-deletes", "total-records")
    assert [head.figure(name) for name in named] == [1, 2, 1, 2, ROWS + 1]
    assert trades.table.current_snapshot().summary.operation.value == "overwrite"


def test_a_file_of_deletes_has_the_spec_and_partition_of_its_data_file(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    with trades.table.update_spec() as update:
        update.remove_field("symbol").add_field("symbol", "truncate[1]", "first")
    (new,) = trades.files("zz", range(ROWS))

    trades.publish([new], [DeletedRows(old.path, [0]), DeletedRows(new.path, [9])])

    found = {file.lower_bounds[PATH_ID].decode(): file for file in trades.delete_files()}
    assert {path: (file.spec_id, file.partition[0]) for path, file in found.items()} == {
        old.path: (0, "a"),
        new.path: (1, "z"),
    }
    assert all(file.lower_bounds[PATH_ID] == file.upper_bounds[PATH_ID] for file in found.values())
    assert len(trades.by_duckdb()) == len(trades.by_pyiceberg()) == 2 * ROWS - 2


def test_a_file_of_deletes_has_a_dictionary_of_paths_only(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    trades.publish([], [DeletedRows(old.path, [3, 4])])

    (deletes,) = trades.delete_files()
    group = pq.ParquetFile(deletes.file_path.removeprefix("file://")).metadata.row_group(0)
    assert [group.column(n).has_dictionary_page for n in range(2)] == [True, False]


def test_files_of_deletes_are_replaced_and_whole_files_dropped(trades: Trades) -> None:
    (one,), (two,) = trades.files("a", range(ROWS)), trades.files("b", range(ROWS))
    trades.publish([one, two])
    trades.publish([], [DeletedRows(one.path, [0]), DeletedRows(two.path, [0])])
    of = {file.lower_bounds[PATH_ID].decode(): file.file_path for file in trades.delete_files()}

    trades.publish(
        [],
        [DeletedRows(one.path, [0, 1], instead_of=(of[one.path],)), DroppedFile(two.path, (of[two.path],))],
    )

    left = [("a", n) for n in range(2, ROWS)]
    assert trades.by_duckdb() == trades.by_pyiceberg() == left
    assert [file.record_count for file in trades.delete_files()] == [2]
    head = trades.view.snapshots[trades.view.head or 0]
    named = ("deleted-records", "added-position-deletes", "removed-position-deletes", "total-records",
             "total-data-files", "total-position-deletes", "total-delete-files")  # fmt: skip
    assert [head.figure(name) for name in named] == [ROWS, 2, 2, ROWS, 1, 2, 1]
    assert head.count_live() == len(left)


def test_a_file_of_deletes_that_is_gone_is_named(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])

    with pytest.raises(CommitRejectedError, match=r"gone\.parquet is to be removed, and is no file of the table"):
        trades.publish([], [DeletedRows(old.path, [0], instead_of=("gone.parquet",))])


def test_a_file_that_is_no_longer_live_is_named(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    trades.table.delete("symbol = 'a'")

    with pytest.raises(CommitRejectedError, match=f"{old.path}, which is no data file of the table any more"):
        trades.publish([], [DeletedRows(old.path, [0])])

    assert set(trades.view.branches) == {"main"}


@pytest.mark.parametrize("positions", [[], [-1], [ROWS], [1, 1], [2, 1]], ids=str)
def test_positions_that_a_file_does_not_have_are_refused(trades: Trades, positions: list[int]) -> None:
    (old,) = trades.files("a", range(ROWS))

    with pytest.raises(ValueError, match=f"not ascending within its {ROWS} rows"):
        trades.publish([old], [DeletedRows(old.path, positions)])


def test_format_version_3_is_refused(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    version_3 = trades.table.metadata.model_copy(update={"format_version": 3})
    was = trades.table
    table = Table(was.name(), version_3, was.metadata_location, was.io, was.catalog)

    with pytest.raises(CommitRejectedError, match="in format version 2 only, the table has 3"):
        trades.lake.stage(
            replace(trades.view, current=table), base=trades.view.head or 0, branch="b", files=[], summary={},
            deletes=[DeletedRows(old.path, [0])],
        )  # fmt: skip


def test_staging_again_takes_data_files_only(trades: Trades) -> None:
    (old,) = trades.files("a", range(ROWS))
    trades.publish([old])
    (new,) = trades.files("b", [1])

    staged = trades.publish([new], [DeletedRows(old.path, [0])])

    assert [file.path for file in trades.lake.added_files(trades.view, staged)] == [new.path]


def test_partitions_of_doubles_stay_as_they_are_when_manifests_are_written_again(tmp_path: Path) -> None:
    """Spark takes the values of such columns from the manifests, and matches files of deletes by them."""
    lake, values = IcebergLake(CatalogSettings("jdbc", str(tmp_path))), [0.1, 5e-324, 1.7976931348623157e308]
    lake.create("lake.doubles", [Column("d", Scalar("double"))], partition_by=("d",), properties={}, summary={})
    doubles = Trades(lake, "lake.doubles")
    target = write_target(doubles.view)
    writer = DataFileWriter(target, storage={}, prefix="w", target_bytes=1 << 20)
    writer.add(pa.RecordBatch.from_pydict({"d": [*values, *values, 7.5]}, schema=writer.arrow_schema))
    files = {file.partition[0]: file for file in writer.close()}
    doubles.publish(list(files.values()))

    doubles.publish([], [DroppedFile(files[7.5].path, ()), *(DeletedRows(files[v].path, [0]) for v in values)])

    manifests = doubles.table.current_snapshot().manifests(doubles.table.io)
    written = [partitions_in(manifest.manifest_path) for manifest in manifests]
    assert sorted(written, key=len) == [sorted(values), sorted([*values, 7.5])]


def partitions_in(manifest: str) -> list[float]:
    """Return the partition values of a manifest by another reader of Avro than PyIceberg's."""
    with Path(manifest.removeprefix("file://")).open("rb") as stream:
        return sorted(entry["data_file"]["partition"]["d"] for entry in fastavro.reader(stream))
