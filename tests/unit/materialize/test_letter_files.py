"""Small files of dead letters are merged: each letter stays as it is, also beside batches, replays and rollbacks."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from values_of_tables import NOW, spec
from whole_batches import LONG, World, framed, once

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import Observer
from frazil.materialize.housekeeping import Housekeeping
from frazil.materialize.letter_retention import delete_old_letters
from frazil.materialize.maintenance.perform import perform
from frazil.materialize.maintenance.preview import preview
from frazil.materialize.maintenance.request import MaintenanceResult, new_request
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.rewrite_tags import rewrite_tags
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, KeepSnapshots, Maintain
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import combined

SPEC = spec(bad_record_limit=BadRecordLimit.off(), maintain=Maintain(512 << 20, KeepSnapshots(), timedelta(days=10)))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
OF_A_BATCH = combined(["before", "after"], ["prepare", "stage", "publish", "reveal", "announce"])
OF_A_REPLAY = combined(
    ["before", "after"], ["replay_choose", "replay_decode", "replay_stage", "replay_prepare", "replay_publish"]
)
REPLAY = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
SEALED = bytes(range(256)) * 40
"""A value that is no record at all, such as one that is encrypted."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table of 3 batches with a row and a dead letter each, of which a replay can decode one."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    run = driver(made)
    send(run, made, framed(2, WIDER, {"n": 1, "channel": "web"}))
    for number in range(2):
        send(run, made, bytes([number]) + SEALED)
    return made


def driver(world: World, observe: Observer = lambda when, step: None) -> TableRun:
    run = world.table(SPEC)
    run.clients = replace(run.clients, observe=observe, now=lambda: NOW, new_id=lambda: uuid.uuid4().hex)
    return run


def send(run: TableRun, world: World, *bad: bytes) -> None:
    world.values += [*bad, framed(1, LONG, {"n": 0})]
    run.clients = replace(run.clients, topics=world.topics)
    assert isinstance(run.batch(), Published)


def compact(world: World, *, expire: bool = False) -> MaintenanceResult:
    request = new_request(id="m1", by="tester", at=NOW, compact=True, expire=expire)
    return perform(Housekeeping(SPEC, "w2"), driver(world).clients, SPEC.identifier, request, seconds=60)


def letters(world: World) -> TableView:
    view = world.lake.load(SPEC.dead_letters_identifier)
    assert view is not None
    return view


def files(world: World) -> int:
    return len(world.lake.stored_files(letters(world)))


def contents(world: World) -> list[dict[str, Any]]:
    """All rows of the dead-letter table, with every column."""
    found = world.lake.read(letters(world), columns=("*",), equal={})
    return sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: (row["offset"], str(row)))


def offsets(world: World) -> tuple[list[int], int]:
    """The offsets of the dead letters, and how many have marks."""
    found = list_dead_letters(world.lake, SPEC, limit=99)
    return sorted(letter.offset for letter in found.newest), found.replayed


def check(world: World) -> None:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    assert [str(finding) for finding in verify_table(world.lake, SPEC, kafka=kafka).findings] == []


def replay(world: World, observe: Observer = lambda when, step: None) -> int:
    world.registry.register("other-value", WIDER)
    world.registry.missing.clear()
    return driver(world, observe).replay(REPLAY).replayed


def test_a_driver_merges_the_files_of_many_batches_and_changes_no_letter(world: World) -> None:
    run = driver(world)
    for number in range(9):
        send(run, world, bytes([number]) + SEALED)
    before, small = contents(world), files(world)

    send(driver(world), world)

    assert (small, files(world)) == (12, 1)
    assert contents(world) == before
    assert sum(row["value"][1:] == SEALED for row in before) == 11
    check(world)


def test_files_stay_few_however_many_batches_there_are(world: World) -> None:
    for _ in range(3):
        run = driver(world)
        for _ in range(11):
            send(run, world, b"bad")

    assert files(world) < 14, "the batches of the last driver, and what it merged"
    assert not list(rewrite_tags(letters(world))), "the next batch with dead letters drops the tag of a merge"
    check(world)


def test_merged_letters_are_replayed_and_deleted_by_age(world: World) -> None:
    compact(world)

    assert replay(world) == 1
    assert offsets(world)[1] == 1
    check(world)
    compact(world)
    assert files(world) == 1
    assert offsets(world)[1] == 1, "the mark is merged with its letter"
    check(world)

    later = max(row["read_at"] for row in contents(world)) + timedelta(days=11)
    assert delete_old_letters(world.lake, SPEC, writer="w3", now=later) == 2
    assert (offsets(world), list(rewrite_tags(letters(world)))) == (([], 0), [])
    check(world)


@pytest.mark.parametrize(("when", "step"), OF_A_BATCH)
def test_another_process_merges_at_any_moment_of_a_batch(world: World, when: str, step: str) -> None:
    before = offsets(world)[0]

    send(driver(world, once((when, step), lambda: compact(world))), world, b"bad")

    assert len(offsets(world)[0]) == len(before) + 1
    check(world)
    send(driver(world), world, b"bad")
    check(world)


@pytest.mark.parametrize(("when", "step"), OF_A_REPLAY)
def test_another_process_merges_at_any_moment_of_a_replay(world: World, when: str, step: str) -> None:
    assert replay(world, once((when, step), lambda: compact(world))) == 1

    assert offsets(world)[1] == 1
    check(world)


@pytest.mark.parametrize("expire", [False, True])
def test_a_batch_that_is_rolled_back_after_a_merge_takes_its_letters_back(world: World, *, expire: bool) -> None:
    before = offsets(world)[0]
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    parent = standing(view, pipeline=SPEC.pipeline).carrier.parent_id
    assert parent is not None
    compact(world, expire=expire)
    world.lake.catalog.load_table(SPEC.identifier).manage_snapshots().rollback_to_snapshot(parent).commit()

    send(driver(world), world)

    assert offsets(world)[0] == before, "the record is read again"
    check(world)


def test_the_command_says_before_what_it_merges(world: World) -> None:
    planned = preview(driver(world).clients, SPEC, compact=True, expire=False)

    done = compact(world)

    assert (planned.files, planned.into) == (done.files, done.into)
    assert planned.files == 6, "of the rows, and of the dead letters"
    assert files(world) == 1
