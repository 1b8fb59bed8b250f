"""The walk-throughs of pages with transformations, step by step: what they print is what the pages show."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from breadth import Place
from followed import Reader, share_spark, write_settings
from walk_through import DOCS

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.spark.sql.session import SqlSession
from frazil.local.sales_channel import truth
from tests.query_session import query_session
from tests.sales_example import Row, SalesExample, clean_events, flat_rows

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark leaves the sockets of `collect` to the garbage collector."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSession]:
    with query_session(tmp_path_factory.mktemp("spark")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def shared_spark(session: SqlSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    share_spark(monkeypatch, session)
    monkeypatch.chdir(tmp_path)


def page_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_transforms(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page, _, _ = page_of("transforms.md").partition("## Write one")
    write_settings(place)
    topic, reader = place.name, Reader(place, place.folder, capsys)

    reader.follow(page.replace('"parcels"', f'"{topic}"').replace("topic: parcels", f"topic: {topic}\ntable: parcels"))

    assert reader.shown == 4


def test_stock_totals(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    write_settings(place)
    topic = place.topic(partitions=2)
    shutil.copytree(DOCS.parent / "transforms", place.folder / "transforms")
    (place.folder / "tables").mkdir()
    (place.folder / "tables" / "stock_trades.yaml").write_text(f"topic: {topic}\ntable: stock_trades\n")
    reader = Reader(place, place.folder, capsys, {"stock_trades": topic})

    reader.follow(page_of("stock-totals.md").replace("stock_trades.totals", f"{topic}.totals"))

    assert reader.shown == 8


def test_sales_channel(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows and the file that the page leaves are compared with the truth, one by one."""
    example = SalesExample.copied(place.folder / "examples" / "sales_channel", place.services)
    topics = {"sales_channel": example.topic}
    reader = Reader(replace(place, folder=example.folder), place.folder, capsys, topics)

    reader.follow(page_of("sales-channel.md").replace("sales_channel.clean", example.output_topic))

    known = flat_rows(clean_events(truth(2_000, seed=0)) | clean_events(truth(500, seed=1)))
    assert reader.shown == 10
    rows = IcebergLake(example.settings().catalog).catalog.load_table("lake.sales").scan().to_arrow().to_pylist()
    assert ({row["event_id"]: row for row in rows}, len(rows)) == (known, len(known))
    (week,) = example.folder.glob(".frazil/exports/sales_weekly/2026-W02/*_correction_1_part_1.csv")
    with week.open(encoding="utf-8-sig", newline="") as file:
        cells = list(csv.DictReader(file))
    of_week = [row for row in known.values() if BEGIN <= row["event_time"] < END]
    assert sorted(map(_cells, of_week)) == sorted(tuple(row.values()) for row in cells)


BEGIN, END = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC)
COLUMNS = ("channel", "sku", "product", "category", "country", "customer", "quantity", "currency", "price", "total")


def _cells(row: Row) -> tuple[str, ...]:
    return (f"{row['event_time']:%Y-%m-%d %H:%M:%S}.000", *(str(row[name]) for name in COLUMNS))
