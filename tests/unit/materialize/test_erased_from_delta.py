"""An erasure leaves nothing of the value in the Delta log: a checkpoint of the head, and no version before it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog
from deltalake import DeltaTable
from erased_tables import erase, erasure
from rebuilt_tables import of_mode

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.standing import log_standing
from frazil.materialize.readers.delta import announce_delta
from frazil.model.errors import ErasureError


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    """A table in two files, and as many versions of its log."""
    made = Changelog.at(tmp_path)
    of_mode("append", made)
    made.spec = replace(made.spec, formats=("iceberg", "delta"))
    made.world.delta_logs = lambda: logs_of(made)
    for value in (1, 2):
        made.send(("ann", value), ("bob", value), ("cid", value))
        made.catch_up()
    return made


def logs_of(log: Changelog) -> DeltaRsLogs:
    return DeltaRsLogs(log.world.lake.storage)


def delta(log: Changelog, version: int | None = None) -> DeltaTable:
    return DeltaTable(log.view.location.removeprefix("file://"), version=version)


def keys(log: Changelog) -> list[str]:
    return sorted(delta(log).to_pyarrow_table(columns=["kafka_key"])["kafka_key"].to_pylist())


def files(log: Changelog) -> list[str]:
    return sorted(path.name for path in Path(log.view.location.removeprefix("file://"), "_delta_log").iterdir())


def test_earlier_versions_with_the_bounds_of_erased_rows_go(log: Changelog) -> None:
    done = erase(log, "ann")

    number = f"{delta(log).version():020}"
    assert (done.rows, done.is_complete) == (2, True)
    assert files(log) == [f"{number}.checkpoint.parquet", f"{number}.json", "_last_checkpoint"]
    assert keys(log) == ["bob", "bob", "cid", "cid"]
    assert log_standing(log.view, logs_of(log)).state == "current"
    assert log.verify().findings == ()


def test_batches_after_it_have_versions_as_before(log: Changelog) -> None:
    erase(log, "ann")
    before = delta(log).version()

    log.send(("dan", 1))
    log.catch_up()

    assert (delta(log).version(), keys(log)) == (before + 1, ["bob", "bob", "cid", "cid", "dan"])


@pytest.mark.parametrize("step", ["rows", "delta", "expire", "delete"])
def test_a_run_that_died_is_finished_by_the_next(log: Changelog, step: str) -> None:
    def die(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    dying = erasure(log.world, log.spec, log.view, "ann", "kafka_key")
    dying.step = die
    with pytest.raises(KeyboardInterrupt):
        dying.perform()

    assert erase(log, "ann").is_complete
    assert keys(log) == ["bob", "bob", "cid", "cid"]


def test_a_driver_that_announces_meanwhile_writes_no_second_log(log: Changelog) -> None:
    """It announces the erased head first: then the erasure finds the log current."""
    running = erasure(log.world, log.spec, log.view, "ann", "kafka_key")

    def announce(name: str) -> None:
        if name == "delta":
            announce_delta(log.world.lake, lambda: logs_of(log), log.view)

    running.step = announce

    assert running.perform().is_complete
    assert announce_delta(log.world.lake, lambda: logs_of(log), log.view) is not None
    assert len(files(log)) == 3


def test_a_version_that_comes_late_is_read_by_nobody(log: Changelog) -> None:
    folder = Path(log.view.location.removeprefix("file://"), "_delta_log")
    late = next(folder.glob("*1.json"))
    text = late.read_text(encoding="utf-8")
    erase(log, "ann")

    late.write_text(text, encoding="utf-8")

    assert keys(log) == ["bob", "bob", "cid", "cid"]
    log.send(("dan", 1))
    log.catch_up()
    assert keys(log)[-1] == "dan"


def test_a_table_that_is_partitioned_by_the_column_is_refused(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, formats=("iceberg", "delta"), partition_by=("kafka_key",))
    log.world.delta_logs = lambda: logs_of(log)
    log.send(("ann", 1))
    log.catch_up()

    with pytest.raises(ErasureError, match="lists removed files by their paths"):
        erase(log, "ann")

    shutil.rmtree(Path(log.view.location.removeprefix("file://"), "_delta_log"))
    assert erase(log, "ann").is_complete
    assert delta(log).version() == 0
