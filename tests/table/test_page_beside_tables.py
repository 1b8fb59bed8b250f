"""The status page that a run keeps beside its tables, and what it serves, of a table in a real catalog."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.adapters.storage.status_page import put_page
from frazil.cli.options import settings_from
from frazil.cli.watch import Watch
from frazil.materialize.run import TableRun
from frazil.model.errors import BrokerError, CatalogError, SettingError
from frazil.model.receipt import Receipt
from frazil.model.settings import STATUS_PAGE, CatalogSettings, RestSettings
from frazil.monitoring.cloudwatch import CloudWatchLines
from frazil.monitoring.keeper import PageKeeper
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory
from tests.table.small_lake import SmallLake, _receipt


class SilentTopics:
    def describe(self, topic: str) -> None:
        raise BrokerError(f"no broker answers for {topic}", hint="start it")


@pytest.fixture
def watch(config: str, lake: SmallLake) -> Watch:
    clients = SimpleNamespace(lake=lake.lake, topics=SilentTopics(), delta_logs=DeltaLogsInMemory)
    run: Any = SimpleNamespace(clients=clients, tables=(SimpleNamespace(spec=lake.spec),))
    return Watch(settings_from(Path(config)), [cast(TableRun, run)], None)


def receipt(lake: SmallLake) -> Receipt:
    return replace(_receipt(lake.spec, lake.state), snapshot_id=1)


def test_a_run_leaves_a_page_beside_the_tables(watch: Watch, lake: SmallLake) -> None:
    with watch.watching():
        watch.batch_published(receipt(lake))

    page = lake.folder / STATUS_PAGE
    assert ": 147 rows<" in page.read_text(encoding="utf-8")
    assert sorted(path.name for path in lake.folder.iterdir()) == ["catalog.db", STATUS_PAGE, "lake"]


@pytest.mark.parametrize(("name", "left"), [("team-a.html", ["team-a.html"]), ("none", [])])
def test_a_setting_names_the_page_or_turns_it_off(
    watch: Watch, lake: SmallLake, config: str, name: str, left: list[str]
) -> None:
    Path(config).write_text(f"{Path(config).read_text()}status_page: {name}\n")
    watch.settings = settings_from(Path(config))

    with watch.watching():
        watch.batch_published(receipt(lake))

    assert [path.name for path in lake.folder.glob("*.html")] == left


@pytest.mark.parametrize("name", ["a/b.html", "../page.html", "page", "~"])
def test_a_page_is_a_file_in_the_warehouse_itself(config: str, name: str) -> None:
    Path(config).write_text(f"{Path(config).read_text()}status_page: {name}\n")

    with pytest.raises(SettingError, match="status_page"):
        settings_from(Path(config))


def test_a_run_whose_page_cannot_be_written_ends_as_without_it(
    watch: Watch, lake: SmallLake, caplog: pytest.LogCaptureFixture
) -> None:
    (lake.folder / STATUS_PAGE).mkdir()

    with watch.watching():
        watch.batch_published(receipt(lake))

    assert [each.message for each in caplog.records] == ["status_page_failed"]
    assert not list(lake.folder.glob("*.new"))


def test_the_warehouse_of_a_rest_catalog_is_no_folder(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sales").mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = CatalogSettings("rest", "sales", rest=RestSettings("http://127.0.0.1:1", {}))

    Watch(replace(watch.settings, catalog=catalog), watch.runs, None).look()

    assert list((tmp_path / "sales").iterdir()) == []


def test_metrics_are_those_of_tables_and_of_the_process(watch: Watch, lake: SmallLake) -> None:
    watch.counted.count(receipt(lake))

    text = watch.exposition()

    assert 'frazil_rows{table="lake.orders"} 147\n' in text
    assert 'frazil_process_batches_total{table="lake.orders"} 1\n' in text


def test_a_page_is_replaced_whole(tmp_path: Path) -> None:
    first = put_page({}, str(tmp_path), STATUS_PAGE, "first")
    before = Path(first).stat().st_ino

    put_page({}, f"{tmp_path}/", STATUS_PAGE, "second")

    assert Path(first).read_text() == "second"
    assert Path(first).stat().st_ino != before
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_PAGE]


def test_a_page_in_a_folder_that_is_gone_says_what_to_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CatalogError, match="could not write the status page") as failed:
        put_page({}, str(tmp_path / "file"), STATUS_PAGE, "page")

    assert "the tables are not affected" in failed.value.hint


def test_a_run_that_is_told_a_namespace_writes_metrics_also_without_a_batch(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(watch.settings, watch.runs, None, CloudWatchLines("Frazil/dev", "streaming"))
    watch.look()

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["Table"] == "lake.orders"


def test_the_thread_of_such_a_run_starts_before_the_first_batch() -> None:
    looks: list[str] = []
    keeper = PageKeeper(lambda: looks.append("look"), always=True, first_seconds=0.01)
    keeper.start()

    end = time.monotonic() + 5
    while not looks and time.monotonic() < end:
        time.sleep(0.005)
    keeper.finish()

    assert looks == ["look"]
