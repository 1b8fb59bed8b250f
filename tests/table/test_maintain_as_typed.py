"""`frazil maintain` as it is typed, beside no driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.cli.app import run
from tests.fakes.in_process import InProcessRunner
from tests.table.small_lake import Read, SmallLake

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.adapters.spark.runner.SparkRunner", lambda **settings: InProcessRunner())


def test_a_dry_run_says_what_would_be_done(config: str, lake: SmallLake, capsys: Captured) -> None:
    before = lake.view.head

    assert run(["maintain", "--dry-run", "--config", config]) == 0

    assert capsys.readouterr().out == (
        "lake.orders:\n"
        "  2 files would become 1\n"
        "  147 rows copied; each scan of these files saves the time of 10,000 rows, which pays after 1 scan\n"
    )
    assert lake.view.head == before


def test_a_table_is_compacted_without_a_driver(config: str, lake: SmallLake, capsys: Captured) -> None:
    assert run(["maintain", "orders", "--wait", "0", "--config", config]) == 0

    said = capsys.readouterr()
    assert said.out.startswith("lake.orders:\n  2 files became 1 in ")
    assert "doing it here" in said.err
    assert len(lake.files()) == 1
    assert run(["verify", "--config", config]) == 0
    assert run(["maintain", "--wait", "0", "--config", config]) == 0
    assert capsys.readouterr().out.endswith("lake.orders: nothing to do\n")


def test_a_request_that_no_driver_takes_is_withdrawn(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.batch(Read("orders", 0, 100, 110))

    assert run(["maintain", "--wait", "1s", "--compact", "--json", "--config", config]) == 0

    (done,) = json.loads(capsys.readouterr().out)
    assert (done["table"], done["files"], done["into"], done["error"]) == ("lake.orders", 3, 1, None)
    assert [name for name in lake.view.properties if "request" in name] == []


def test_a_table_that_does_not_exist_is_named(config: str, lake: SmallLake, capsys: Captured) -> None:
    path = Path(config).parent / "tables" / "other.yaml"
    path.write_text("topic: other\nkey: string\n")

    assert run(["maintain", "other", "--wait", "0", "--config", config]) == 0

    assert "lake.other does not exist yet" in capsys.readouterr().err


def test_a_time_that_is_none_is_refused(config: str, capsys: Captured) -> None:
    assert run(["maintain", "--for", "soon", "--config", config]) == 2

    assert '--for: expected a time, found "soon"' in capsys.readouterr().err
