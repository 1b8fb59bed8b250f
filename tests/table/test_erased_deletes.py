"""An erasure where another engine's file of position deletes names rows of several data files."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.forget.perform import Erased, Erasure
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import standing
from frazil.verify.table import verify_table
from tests.position_deletes import delete_together
from tests.table.small_lake import Read, SmallLake, spec_of

NOW = datetime(2026, 2, 1, tzinfo=UTC)
_NUMBERS = count()


@pytest.fixture
def partitioned(tmp_path: Path) -> SmallLake:
    """A table partitioned by `symbol`, with 2 data files in each partition."""
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", partition_by=("symbol",)))
    lake.batch(Read("orders", 0, 0, 14))
    lake.batch(Read("orders", 0, 14, 28))
    return lake


def erase(lake: SmallLake, column: str, text: str) -> Erased:
    foreign = count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))
    lake.state = replace(lake.state, foreign=foreign)  # as each batch does
    sought = sought_in(lake.view, column, text)
    return Erasure(lake.lake, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}").perform()


def files_of(lake: SmallLake, symbol: str) -> list[DataFile]:
    return [task.file for task in lake.table.scan(row_filter=f"symbol = '{symbol}'").plan_files()]


def delete_first_rows(lake: SmallLake, files: list[DataFile]) -> Path:
    path = Path(lake.view.location.removeprefix("file://")) / "data" / f"theirs-{uuid.uuid4()}-deletes.parquet"
    delete_together(lake.table, path, {file: range(1) for file in files})
    return path


def keys(lake: SmallLake) -> list[int]:
    return sorted(int(key) for key in lake.table.scan().to_arrow()["kafka_key"].to_pylist())


def test_a_file_of_deletes_of_the_erased_partition_goes_with_it(partitioned: SmallLake) -> None:
    theirs = delete_first_rows(partitioned, files_of(partitioned, "S6"))
    others = delete_first_rows(partitioned, files_of(partitioned, "S5"))
    before = [key for key in keys(partitioned) if key % 7 != 6]

    done = erase(partitioned, "symbol", "S6")

    assert (done.rows, done.is_complete, theirs.exists(), others.exists()) == (2, True, False, True)
    assert keys(partitioned) == before
    assert verify_table(partitioned.lake, partitioned.spec).findings == ()


def test_a_file_of_deletes_whose_data_files_are_gone_already_goes_too(partitioned: SmallLake) -> None:
    theirs = delete_first_rows(partitioned, files_of(partitioned, "S6"))
    partitioned.table.delete("symbol = 'S6'")

    done = erase(partitioned, "symbol", "S6")

    assert (done.rows, done.is_complete, theirs.exists()) == (0, True, False)
    assert verify_table(partitioned.lake, partitioned.spec).findings == ()


def test_rows_that_the_file_deletes_in_other_data_files_stay_deleted(lake: SmallLake) -> None:
    files = [task.file for task in lake.table.scan().plan_files()]
    theirs = delete_first_rows(lake, files)
    before = keys(lake)

    done = erase(lake, "kafka_key", "99")

    assert (done.rows, done.is_complete, theirs.exists()) == (1, True, True)
    assert keys(lake) == [key for key in before if key != 99]
    assert verify_table(lake.lake, lake.spec).findings == ()


def test_paths_in_a_file_of_deletes_that_no_snapshot_has_are_found(partitioned: SmallLake) -> None:
    theirs = delete_first_rows(partitioned, files_of(partitioned, "S6"))
    left = theirs.rename(theirs.with_name("left-deletes.parquet"))
    theirs.write_bytes(left.read_bytes())

    found = TraceSearch(sought_in(partitioned.view, "symbol", "S6")).find(partitioned.view).found

    assert [each.kept_by for each in found if each.address == str(left)] == [()]
