"""A batch that took too long is not published: its files may be taken for orphans."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from values_of_tables import SPEC
from whole_batches import World, drained

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize import batch_age
from frazil.materialize.outcome import Again, Published
from frazil.model.errors import CommitRejectedError
from frazil.model.settings import CatalogSettings
from frazil.verify.table import verify_table

ORDERS = replace(SPEC, value="string")


def world_in(folder: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(folder))), values=[b"some text"] * 3)


def in_a_process_of_its_own(folder: Path, told: Connection) -> None:
    """Stop before the publish, for longer than a batch may take."""
    batch_age.OLDEST = timedelta(seconds=0.2)

    def observe(when: str, step: str) -> None:
        if (when, step) == ("before", "publish"):
            told.send("staged")
            os.kill(os.getpid(), signal.SIGSTOP)

    run = world_in(folder).table(ORDERS)
    run.clients = replace(run.clients, observe=observe)
    told.send(type(run.batch()).__name__)


def test_a_process_that_was_stopped_publishes_nothing_old(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=in_a_process_of_its_own, args=(tmp_path, there))
    child.start()
    assert here.recv() == "staged"
    assert child.pid is not None
    os.waitpid(child.pid, os.WUNTRACED)
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGCONT)

    assert here.recv() == "Again"
    child.join()
    world = world_in(tmp_path)
    drained(world, ORDERS)
    assert verify_table(world.lake, ORDERS).findings == ()
    view = world.lake.load(ORDERS.identifier)
    assert view is not None
    assert [name for name in view.branches if name != "main"] == []


def test_a_batch_that_is_too_old_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = world_in(tmp_path).table(ORDERS)
    monkeypatch.setattr(batch_age, "OLDEST", timedelta(0))

    assert isinstance(run.batch(), Again)
    assert "batch_too_old" in caplog.messages
    monkeypatch.undo()
    assert isinstance(run.batch(), Published)


def test_files_that_took_too_long_to_rewrite_replace_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_in(tmp_path)
    drained(world, ORDERS)
    world.values += [b"more"]
    drained(world, ORDERS)
    (table,), view = world.table(ORDERS).tables, world.lake.load(ORDERS.identifier)
    assert view is not None
    monkeypatch.setattr(batch_age, "OLDEST", timedelta(0))

    with pytest.raises(CommitRejectedError, match="took more than a day"):
        table.housekeeping.rewriting.asked(world.table(ORDERS).clients, view)
