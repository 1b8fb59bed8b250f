"""The walk-throughs of pages with transformations, step by step: what they print is what the pages show."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from breadth import Place
from followed import Reader, share_spark, write_settings
from walk_through import DOCS

from frazil.adapters.spark.application import RUNS_QUERIES
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.session import SqlSession

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark leaves the sockets of `collect` to the garbage collector."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSession]:
    runner = SparkRunner(log_file=tmp_path_factory.mktemp("spark") / "spark.log", jvm=RUNS_QUERIES)
    yield SqlSession(runner)
    runner.stop()


@pytest.fixture
def place(place: Place, session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> Place:
    share_spark(monkeypatch, session)
    monkeypatch.chdir(place.folder)
    write_settings(place)
    return place


def page_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_transforms(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page, _, _ = page_of("transforms.md").partition("## Write one")
    topic, reader = place.topic(), Reader(place, capsys)

    reader.follow(page.replace('"parcels"', f'"{topic}"').replace("topic: parcels", f"topic: {topic}\ntable: parcels"))

    assert reader.shown == 4


def test_stock_totals(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.topic(partitions=2)
    shutil.copytree(DOCS.parent / "transforms", place.folder / "transforms")
    (place.folder / "tables").mkdir()
    (place.folder / "tables" / "stock_trades.yaml").write_text(f"topic: {topic}\ntable: stock_trades\n")
    reader = Reader(place, capsys, {"stock_trades": topic})

    reader.follow(page_of("stock-totals.md"))

    assert reader.shown == 7
