"""Files that belong to a rebuilt table: its Delta log follows, and expiry leaves what the table needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changelogs import Changelog
from ordered_changelogs import OrderedChangelog
from rebuilt_tables import RECORDS, check_as_new, of_mode, rebuild, rewind, rows

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import ToEarliest
from frazil.model.expiry import Expiry
from tests.fakes.duckdb_once import engine


def expire_others(changelog: Changelog) -> None:
    """Let all snapshots expire but the head, and delete their files."""
    lake, before = changelog.world.lake, changelog.view
    gone = tuple(each for each in before.snapshots if each != before.head)
    lake.expire(before, Expiry(gone, {}, tuple(name for name, at in before.tags.items() if at in gone)))
    lake.delete_unreachable(before, gone, named_elsewhere=lambda: ())


def with_delta(changelog: Changelog) -> None:
    logs = DeltaRsLogs(changelog.world.lake.storage)
    changelog.world.delta_logs = lambda: logs
    changelog.spec = replace(changelog.spec, formats=("iceberg", "delta"))


def seen_by_delta(changelog: Changelog, column: str) -> list[Any]:
    query = f"SELECT kafka_offset, {column} FROM delta_scan('{changelog.view.location}') ORDER BY ALL"
    return engine().execute(query).fetchall()


def test_a_delta_log_follows_a_rebuild_that_changes_a_type(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    of_mode("typed", log)
    with_delta(log)
    log.send(*RECORDS)
    log.catch_up()

    log.spec = replace(log.spec, value_settings=replace(log.spec.value_settings, fields=json.dumps({"n": "string"})))
    log.spec = replace(log.spec, on_tombstone="row")
    rebuild(log).perform()

    assert seen_by_delta(log, "n") == [(row["kafka_offset"], row["n"]) for row in rows(log, log.spec)]


@pytest.mark.parametrize("mode", ["typed", "upsert"])
@pytest.mark.parametrize("act", [rebuild, lambda log: rewind(log, ToEarliest())], ids=["rebuild", "rewind"])
def test_what_was_there_before_can_expire(tmp_path: Path, mode: str, act: Callable[[Changelog], Rebuild]) -> None:
    log = Changelog.at(tmp_path)
    of_mode(mode, log)
    log.send(*RECORDS)
    log.catch_up()
    act(log).perform()

    expire_others(log)

    check_as_new(log)
    log.send(("a", 7), ("b", None))
    log.catch_up()
    check_as_new(log)


def test_deletes_stay_remembered_if_the_snapshots_of_a_rebuild_expire(tmp_path: Path) -> None:
    log = OrderedChangelog.at(tmp_path)
    log.send_at(("a", 1, 5, 0), ("b", 1, 4, 1))
    log.catch_up()
    log.send_at(("a", None, 9, 1))
    log.catch_up()
    log.check()
    rebuild(log).perform()

    expire_others(log)

    log.check()
    log.send_at(("a", 2, 8, 0))
    log.catch_up()
    log.check()
