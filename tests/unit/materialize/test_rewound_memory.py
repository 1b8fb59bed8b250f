"""A rebuild or a rewind forgets no delete, however long ago its records were read first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from keyed_letters import BY_TIME, LateKeys
from ordered_changelogs import OrderedChangelog
from rebuilt_tables import SMALL, KilledError, rebuild, rewind
from values_of_tables import NOW

from frazil.materialize.rebuild.perform import Rebuild, RebuildProgress
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.model.plan import NothingToDo


@pytest.fixture
def log(tmp_path: Path) -> OrderedChangelog:
    """A table in which a late record of k is older than the delete of k, which was read half a day before it."""
    made = OrderedChangelog.at(tmp_path, trigger=SMALL)
    batches = [(("k", 1, 3, 0), ("k", None, 9, 0), ("z", 1, 1, 0)), (("k", 2, 5, 0), ("x", 1, 1, 0))]
    for days, records in enumerate(batches):
        made.send_at(*records)
        run = made.world.table(made.spec)
        run.clients = replace(run.clients, now=at(days / 2))
        while not isinstance(run.batch(), NothingToDo):
            pass
        made.settle()
    made.check()
    return made


def at(days: float) -> Callable[[], Any]:
    return lambda: NOW + timedelta(days=days)


def on_day(days: float, act: Rebuild) -> Rebuild:
    act.clients = replace(act.clients, now=at(days))
    return act


def check(log: OrderedChangelog) -> None:
    assert log.records() == log.live
    for verification in (log.verify(), log.against_kafka()):
        assert verification.findings == ()


def test_a_rewind_after_the_time_of_the_memory_brings_no_deleted_key_back(log: OrderedChangelog) -> None:
    on_day(8, rewind(log, ToOffsets({"orders": {0: 3}}))).perform()

    check(log)


def test_a_rebuild_that_rests_for_longer_than_the_memory_brings_no_deleted_key_back(log: OrderedChangelog) -> None:
    def die(progress: RebuildProgress) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        on_day(1, rebuild(log, report=die)).perform()

    on_day(9, rebuild(log)).perform()

    check(log)


@pytest.mark.parametrize(("days", "rows"), [(14.9, {"x", "z"}), (15.1, {"k", "x", "z"})])
def test_a_batch_forgets_what_is_old_since_the_rewind(log: OrderedChangelog, days: float, rows: set[str]) -> None:
    on_day(8, rewind(log, ToOffsets({"orders": {0: 3}}))).perform()
    log.send_at(("k", 3, 6, 0))
    run = log.world.table(log.spec)
    run.clients = replace(run.clients, now=at(days))

    run.batch()

    assert log.records().keys() == rows


@pytest.mark.parametrize("write", ["upsert", "history"])
def test_a_rewind_remembers_deletes_for_as_long_as_the_letters_that_it_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    table = LateKeys.at(tmp_path, write=write, **BY_TIME)
    monkeypatch.setattr("frazil.materialize.ingest.decode.now_utc", lambda: table.now)
    table.send(("k", None, 9), ("z", 1, 1), ("y", 1, 1))
    table.batch()
    table.later(days=1)
    table.send(("k", 5, 5), late=True)
    table.batch()
    table.later(days=5.9)
    act = rewind(cast(Any, table), ToOffsets({"orders": {0: 3}}))
    act.clients = replace(act.clients, now=lambda: table.now)
    act.perform()
    table.fix()
    table.later(days=1.5)
    table.send(("z", None, 9))
    table.batch()

    result = table.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {})
    table.check()
