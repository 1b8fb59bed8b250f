"""Exports of tables whose rows change, of large ones, of those of others, and after a change of columns."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.manifest import Manifest
from frazil.exports.perform import Export, Exported
from frazil.exports.periods import last_period, period_between
from frazil.model.errors import ExportError
from frazil.model.exports import ExportSpec, ExportWindow
from tests.position_deletes import delete_rows
from tests.table.small_lake import Read, SmallLake, spec_of

WEEKLY = ExportWindow("kafka_timestamp", "week", "UTC")
WEEK = last_period(WEEKLY, datetime(2026, 2, 9, tzinfo=UTC))
ALWAYS = period_between(WEEKLY, "2026-01-01", "2050-01-01")
POOLS: list[pa.MemoryPool] = []
"""Arrow keeps no reference of its own to the pool that it uses."""


@pytest.fixture
def spec(tmp_path: Path) -> ExportSpec:
    return ExportSpec("exports/weekly.yaml", "weekly", "lake.orders", str(tmp_path / "out"), WEEKLY)


@pytest.fixture
def upserts(tmp_path: Path) -> SmallLake:
    """A table that follows keys, as far as its state and its properties say."""
    small = SmallLake(tmp_path / "warehouse", spec_of("orders", write="upsert"))
    small.batch(Read("orders", 0, 0, 60))
    return small


def run(lake: SmallLake, spec: ExportSpec, **more: Any) -> Exported:
    period = more.pop("period", WEEK if spec.window else None)
    export = Export(spec, lake.lake, lambda at: ExportFolder(lake.lake.storage, at), lambda: datetime.now(UTC), **more)
    return export.run(period)


def rows_of(done: Exported, manifest: Manifest | None) -> list[dict[str, str]]:
    assert manifest is not None
    texts = [Path(done.address, part.name).read_text(encoding="utf-8") for part in manifest.parts]
    return [row for text in texts for row in csv.DictReader(text.splitlines())]


def offsets(done: Exported) -> list[int]:
    return sorted(int(row["kafka_offset"]) for row in rows_of(done, done.written))


def test_rows_that_are_deleted_by_position_are_not_exported(
    upserts: SmallLake, spec: ExportSpec, tmp_path: Path
) -> None:
    delete_rows(upserts.table, tmp_path, one_in=3)

    assert offsets(run(upserts, spec)) == [n for n in range(36, 60) if n % 3]


def test_a_keyed_table_is_exported_anew_after_a_batch(upserts: SmallLake, spec: ExportSpec) -> None:
    run(upserts, spec)
    again = run(upserts, spec)
    upserts.batch(Read("orders", 0, 60, 62))

    done = run(upserts, spec)

    assert again.written is None
    assert done.written is not None
    assert (done.written.number, done.written.contents) == (1, "all rows again")
    assert offsets(done) == list(range(36, 62))


def test_a_keyed_table_is_not_exported_incrementally(upserts: SmallLake, spec: ExportSpec) -> None:
    with pytest.raises(ExportError, match="is no table that Frazil fills with write: append"):
        run(upserts, replace(spec, window=None))


def test_dead_letters_can_be_exported(lake: SmallLake, spec: ExportSpec) -> None:
    letters = replace(spec, table="lake.orders__dead_letters", window=replace(WEEKLY, column="timestamp"))

    done = run(lake, letters, period=ALWAYS)

    assert [(row["partition"], row["offset"], row["value"]) for row in rows_of(done, done.written)] == [
        ("0", "10", b"not framed".hex()),
        ("0", "21", b"\x00\x00\x00\x00\x07bad".hex()),
    ]


def test_a_run_after_a_change_of_columns_writes_those_of_its_snapshot(lake: SmallLake, spec: ExportSpec) -> None:
    """A run that ended early has pinned its snapshot: the files before and after the change have the same columns."""
    spec = replace(spec, part_rows=40)
    run(lake, spec, may_continue=lambda: False)
    with lake.table.update_schema() as update:
        update.rename_column("symbol", "ticker")

    done = run(lake, spec)
    later = run(lake, replace(spec, name="later"))

    assert done.written is not None
    assert len(done.written.parts) == 2
    assert {next(iter(row)) for row in rows_of(done, done.written)} == {"symbol"}
    assert done.written.columns[0] == ("symbol", "string")
    assert later.written is not None and later.written.columns[0] == ("symbol", "string")


def test_a_manifest_names_what_the_export_is_of(lake: SmallLake, spec: ExportSpec) -> None:
    done = run(lake, spec)

    value = json.loads(Path(done.address, "manifest.json").read_text(encoding="utf-8"))

    assert value["window"] == {
        "label": "2026-W06",
        "column": "kafka_timestamp",
        "from": "2026-02-02T00:00:00+00:00",
        "to": "2026-02-09T00:00:00+00:00",
        "time_zone": "UTC",
    }
    assert value["complete_through"] == "2026-01-31T12:00:00Z"
    assert value["snapshot_id"] == lake.view.head
    assert value["positions"]["topics"]["orders"]["partitions"] == {
        "0": {"next": 100, "rows": 97},
        "1": {"next": 50, "rows": 50},
    }
    assert Manifest.of_json(value) == done.written


def test_a_manifest_that_was_edited_is_refused(lake: SmallLake, spec: ExportSpec) -> None:
    done = run(lake, spec)
    Path(done.address, "manifest.json").write_text("{}")

    with pytest.raises(ExportError, match=r"manifest.json is no manifest of an export: KeyError: 'version'"):
        run(lake, spec)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_of_ten_times_the_memory_is_exported(empty_lake: SmallLake, spec: ExportSpec, form: Any) -> None:
    """One file of the table is decoded in slices: neither the file nor its row group is held as a whole."""
    empty_lake.batch(Read("orders", 0, 0, 10_000))
    (path,) = empty_lake.files()
    rows = pq.read_table(path)
    index = rows.schema.get_field_index("kafka_key")
    keys = pa.array([f"{n:04000}" for n in range(rows.num_rows)])
    rows = rows.set_column(index, rows.schema.field(index), keys)
    pq.write_table(pa.concat_tables([rows] * 12), path, row_group_size=120_000)
    spec = replace(spec, format=form, gzip=form == "csv", part_rows=100_000)

    usual = pa.default_memory_pool()
    POOLS.append(pa.proxy_memory_pool(usual))
    pa.set_memory_pool(POOLS[-1])
    try:
        done = run(empty_lake, spec, period=ALWAYS)
    finally:
        pa.set_memory_pool(usual)

    assert done.written is not None and done.written.rows == 120_000
    assert POOLS[-1].max_memory() * 10 < rows.nbytes * 12
    if form == "csv":
        last = gzip.decompress(Path(done.address, done.written.parts[-1].name).read_bytes())
        assert last.count(b"\r\n") == 20_001
