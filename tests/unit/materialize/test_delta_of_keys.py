"""The Delta log of a table that follows keys: it follows the snapshots in which no row is marked as deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from changelogs import Changelog
from deltalake import DeltaTable
from rebuilt_tables import SMALL, rebuild
from shaped_tables import Shapes, specs

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.standing import log_standing
from frazil.maintain import rewriting
from frazil.model.delta import DELTA_TAG


@pytest.fixture
def changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Changelog]:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    made = Changelog.at(tmp_path, formats=("iceberg", "delta"))
    made.world.delta_logs = lambda: logs_of(made)
    yield made


def logs_of(changelog: Changelog) -> DeltaRsLogs:
    return DeltaRsLogs(changelog.world.lake.storage)


def in_delta(changelog: Changelog) -> dict[str, int]:
    table = DeltaTable(changelog.view.location.removeprefix("file://"))
    rows = table.to_pyarrow_table(columns=["kafka_key", "kafka_offset"]).to_pylist()
    assert len({row["kafka_key"] for row in rows}) == len(rows)
    return {row["kafka_key"]: row["kafka_offset"] for row in rows}


def test_the_log_waits_while_rows_are_marked_as_deleted_and_follows_their_rewriting(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog.send(*((key, 1) for key in "abcd"))
    changelog.catch_up()
    first = dict(changelog.state)
    with monkeypatch.context() as undone:
        undone.setattr(rewriting, "NEVER", 0.0)
        changelog.send(("a", 2), ("b", None))
        changelog.catch_up()
    waiting, seen = log_standing(changelog.view, logs_of(changelog)), in_delta(changelog)
    changelog.send(("c", 3))
    changelog.world.table(changelog.spec).batch()

    assert (waiting.state, waiting.version) == ("withheld", 0)
    assert seen == first != changelog.state
    assert log_standing(changelog.view, logs_of(changelog)).state == "current"
    assert in_delta(changelog) == changelog.state
    changelog.check()


def test_the_log_stays_with_the_rows_before_a_rebuild_until_a_snapshot_without_deletes(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a rebuild was made of, such as its first snapshot, without rows, was never what readers saw."""
    changelog.spec = replace(changelog.spec, trigger=SMALL)
    changelog.send(*((key, 1) for key in "abcd"))
    changelog.catch_up()
    changelog.send(("a", 2))
    with monkeypatch.context() as undone:
        undone.setattr(rewriting, "NEVER", 0.0)
        changelog.catch_up()
        before = in_delta(changelog)
        rebuild(changelog).perform()
        changelog.send(("e", 1))
        changelog.catch_up()

    log = log_standing(changelog.view, logs_of(changelog))
    assert log.state == "withheld"
    assert in_delta(changelog) == before != {}
    assert changelog.view.tags[DELTA_TAG] == log.snapshot_id
    changelog.send(("c", 3))
    changelog.world.table(changelog.spec).batch()
    assert log_standing(changelog.view, logs_of(changelog)).state == "current"
    assert in_delta(changelog) == changelog.state


def test_a_log_that_begins_after_a_rebuild_begins_with_what_readers_saw(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "NEVER", 0.0)
    changelog.spec = replace(changelog.spec, trigger=SMALL, formats=("iceberg",))
    changelog.send(*((key, 1) for key in "abcd"), ("a", 2))
    changelog.catch_up()
    rebuild(changelog).perform()
    changelog.spec = replace(changelog.spec, formats=("iceberg", "delta"))
    changelog.send(("e", 1))
    changelog.catch_up()

    log = log_standing(changelog.view, logs_of(changelog))
    assert (log.state, log.version) == ("withheld", None)


def test_each_table_of_shapes_has_a_log_of_its_own(tmp_path: Path) -> None:
    made = Shapes.at(tmp_path)
    made.tables = specs(formats=("iceberg", "delta"))
    logs = DeltaRsLogs(made.world.lake.storage)
    made.world.delta_logs = lambda: logs
    made.send(("a", 1, 10, 0), ("b", 1, 11, 1), ("c", 1, 12, 0))
    made.catch_up()
    made.send(("a", 2, 20, 0), ("b", None, 21, 1))
    made.catch_up()

    states = []
    for table in made.tables:
        view = made.world.lake.load(table.identifier)
        assert view is not None
        log = log_standing(view, logs)
        in_delta = DeltaTable(view.location.removeprefix("file://")).to_pyarrow_table()
        assert _offsets(in_delta) == _offsets(view.current.scan(snapshot_id=log.snapshot_id).to_arrow()) != []
        states.append((table.table, log.state, in_delta.num_rows))
    assert states == [("log", "current", 5), ("now", "withheld", 3), ("history", "withheld", 3)]


def _offsets(rows: pa.Table) -> list[tuple[int, int]]:
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in rows.to_pylist())
