"""Files of position deletes, read for the data files whose rows they name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, FileFormat

from frazil.adapters.iceberg import position_deletes
from frazil.adapters.iceberg.position_deletes import positions_in

IO = PyArrowFileIO()


def deletes(path: Path, *rows: tuple[str, int], statistics: bool = True) -> DataFile:
    """Write a file with two rows in each row group."""
    table = pa.table({"file_path": [name for name, _ in rows], "pos": [at for _, at in rows]})
    pq.write_table(table, path, row_group_size=2, write_statistics=statistics)
    return DataFile.from_args(file_path=str(path), file_format=FileFormat.PARQUET)


@pytest.mark.parametrize("statistics", [True, False])
def test_positions_are_those_of_one_file_ascending_and_once(tmp_path: Path, statistics: bool) -> None:
    found = positions_in(
        IO,
        [
            deletes(tmp_path / "own", ("b", 3), ("b", 9), ("b", 10), statistics=statistics),
            deletes(tmp_path / "many", ("a", 1), ("b", 0), ("b", 3), ("c", 4), statistics=statistics),
            deletes(tmp_path / "other", ("c", 5), ("c", 6), statistics=statistics),
        ],
        "b",
    )

    assert found.tolist() == [0, 3, 9, 10]


def test_paths_are_not_read_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_deletes, "_by_path", lambda _: pytest.fail("the paths were read"))

    assert positions_in(IO, [deletes(tmp_path / "own", ("b", 1), ("b", 2), ("b", 3))], "b").tolist() == [1, 2, 3]


def test_nothing_is_deleted_without_files() -> None:
    assert positions_in(IO, [], "b").tolist() == []
