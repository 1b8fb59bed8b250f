"""Filters on times before 1970 in tables that are partitioned by them.

`docs/architecture.md`, "Partitions in filters", tells readers what DuckDB leaves out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import GreaterThanOrEqual

from frazil.model.columns import Column, Scalar
from tests.table.one_column import count_in_duckdb, written

HOUR = 3_600_000_000
TIMES = [0, -1, -36 * HOUR]
"""Microseconds since 1970; the others are at noon of 30 December 1969 and at the end of 1969."""

FILTERS = {-36 * HOUR: "1969-12-30T12:00:00", -1: "1969-12-31T23:59:59.999999"}
LEAVES_OUT = {"month(seen)", "day(seen)"}
"""Partitions whose files DuckDB 1.5.5 leaves out: it rounds months and days towards 1970."""


@pytest.mark.parametrize("partition_by", ["year(seen)", "month(seen)", "day(seen)", "hour(seen)"])
def test_only_duckdb_leaves_out_files_of_months_and_days_before_1970(tmp_path: Path, partition_by: str) -> None:
    view = written(tmp_path, Column("seen", Scalar("timestamp")), TIMES, partition_by=[partition_by])

    for least, text in FILTERS.items():
        expected = sum(time >= least for time in TIMES)
        assert view.current.scan(GreaterThanOrEqual("seen", text)).to_arrow().num_rows == expected
        pruned = f"seen >= TIMESTAMP '{text}'"
        assert (count_in_duckdb(view, pruned) == expected) is (partition_by not in LEAVES_OUT)
        assert count_in_duckdb(view, f"epoch_us(seen) >= {least}") == expected
