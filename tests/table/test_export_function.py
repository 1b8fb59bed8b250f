"""The run of an export inside the function: it stops before its time is up, and the next one continues."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil.model.exports import ExportSpec, ExportWindow
from frazil.model.settings import CatalogSettings
from lambdas.export_csv.exporting import OutOfTimeError, period_of, run
from tests.table.small_lake import SmallLake

ROWS_OF_THE_WEEK = 77
"""As tests/table/test_exports.py counts them."""


def test_a_run_out_of_time_is_completed_by_those_after_it(lake: SmallLake, tmp_path: Path) -> None:
    window = ExportWindow("kafka_timestamp", "week", "UTC")
    spec = ExportSpec("weekly.yaml", "weekly", "lake.orders", str(tmp_path / "out"), window, part_rows=30)
    catalog = CatalogSettings("jdbc", str(lake.folder))
    period = period_of(spec, {"at": "2026-02-09T06:00:00Z"}, datetime.now(UTC))

    for _ in range(2):
        with pytest.raises(OutOfTimeError, match="weekly is not finished"):
            run(spec, catalog, period, may_continue=lambda: False)
    ran = run(spec, catalog, period, may_continue=lambda: True)

    assert ran.summary == {
        "address": f"{tmp_path}/out/weekly/2026-W06",
        "window": "2026-W06",
        "edition": 0,
        "contents": "all rows",
        "snapshot_id": str(lake.view.head),
        "files": 3,
        "rows": ROWS_OF_THE_WEEK,
    }
    assert [part.rows for part in ran.exported.finished[0].parts] == [30, 30, 17]
    again = run(spec, catalog, period, may_continue=lambda: True)
    assert again.summary == {"address": ran.folder.address, "files": 0, "rows": 0, "finished": 1}


def test_a_run_that_finishes_no_file_says_that_another_would_come_no_further(lake: SmallLake, tmp_path: Path) -> None:
    window = ExportWindow("kafka_timestamp", "week", "UTC")
    spec = ExportSpec("weekly.yaml", "weekly", "lake.orders", str(tmp_path / "out"), window)
    catalog = CatalogSettings("jdbc", str(lake.folder))
    period = period_of(spec, {"at": "2026-02-09T06:00:00Z"}, datetime.now(UTC))

    with pytest.raises(OutOfTimeError, match="files that this run finished: 0, in") as stopped:
        run(spec, catalog, period, may_continue=lambda: True, may_read=lambda: False)

    assert "would come no further: set a smaller `part_rows`" in stopped.value.hint
    assert [path.name for path in (tmp_path / "out" / "weekly" / "2026-W06").iterdir()] == ["progress.json"]
    assert run(spec, catalog, period, may_continue=lambda: True).summary["rows"] == ROWS_OF_THE_WEEK
