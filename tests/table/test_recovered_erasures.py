"""`frazil recover` after an erasure: no erased row comes back, or the command says which erasure is undone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.cli.app import run
from frazil.forget.perform import Erasure
from tests.table.small_lake import Read, SmallLake

NOW = datetime(2026, 2, 1, tzinfo=UTC)
_NUMBERS = count()

Captured = pytest.CaptureFixture[str]


def erase(lake: SmallLake, text: str) -> None:
    sought = sought_in(lake.view, "kafka_key", text)
    run_of = Erasure(lake.lake, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}")
    assert run_of.perform().is_complete


def drop(lake: SmallLake) -> None:
    for identifier in (lake.spec.identifier, lake.spec.dead_letters_identifier):
        lake.lake.catalog.drop_table(identifier)
    lake.restart()


def has_traces(lake: SmallLake, text: str) -> Iterator[bool]:
    """Say of both tables whether a file has a trace."""
    lake.restart()
    sought = sought_in(lake.view, "kafka_key", text)
    for view in (lake.view, lake.dead_view):
        yield bool(TraceSearch(sought, letters=view is not lake.view).find(view).found)


def keys(lake: SmallLake) -> set[str]:
    lake.restart()
    return set(lake.table.scan().to_arrow()["kafka_key"].to_pylist())


def newest(lake: SmallLake) -> Path:
    return Path(lake.table.metadata_location.removeprefix("file://"))


def test_a_recovered_table_has_no_trace(config: str, lake: SmallLake, capsys: Captured) -> None:
    erase(lake, "21")
    drop(lake)

    assert run(["recover", "orders", "--config", config]) == 0

    assert "erased" not in capsys.readouterr().out
    assert run(["verify", "orders", "--config", config]) == 0
    assert list(has_traces(lake, "21")) == [False, False]


def test_a_state_with_the_erased_rows_cannot_be_recovered(config: str, lake: SmallLake, capsys: Captured) -> None:
    before = newest(lake)
    erase(lake, "99")
    drop(lake)

    assert run(["recover", "orders", "--metadata", f"file://{before}", "--config", config]) == 1

    assert "cannot be used" in capsys.readouterr().err


def test_an_earlier_state_is_recovered_without_the_rows_if_newer_files_are_damaged(
    config: str, lake: SmallLake, capsys: Captured
) -> None:
    erase(lake, "21")
    newest(lake).write_text("damaged")
    drop(lake)

    assert run(["recover", "orders", "--config", config]) == 0

    assert run(["verify", "orders", "--config", config]) == 0
    assert list(has_traces(lake, "21")) == [False, False]


def test_a_state_from_before_the_rows_says_which_erasure_is_undone(
    config: str, lake: SmallLake, capsys: Captured
) -> None:
    before = newest(lake)
    lake.batch(Read("orders", 0, 100, 110))
    erase(lake, "105")
    newest(lake).write_text("damaged")
    drop(lake)

    assert run(["recover", "orders", "--metadata", f"file://{before}", "--config", config]) == 0

    said = capsys.readouterr().out
    assert "not in this state: forget by tester at 2026-02-01T00:00:00Z: 1 row and 0 dead letters" in said
    assert "run `frazil forget` again" in said
    assert "105" not in keys(lake)
