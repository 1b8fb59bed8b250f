"""The dead letters of a rebuilt table, with marks of replays, and with figures of deleted ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.letter_retention import delete_old_letters
from frazil.materialize.outcome import Published
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target, ToOffsets
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.errors import RebuildError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, KeepSnapshots, Maintain
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(bad_record_limit=BadRecordLimit.off(), maintain=Maintain(512 << 20, KeepSnapshots(), timedelta(days=10)))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
REPLAY = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
BOTH: list[Target | None] = [None, ToOffsets({"orders": {0: 3}})]


class Clock:
    """The time of the driver and of its tasks, which begins with that of the snapshots."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("frazil.materialize.ingest.decode.now_utc", made)
    return made


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> World:
    """Three records in the first batch and three in the second: each a row, no Avro, and of an unknown schema."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    for n in (0, 3):
        made.values += [framed(1, LONG, {"n": n}), b"bad", framed(2, WIDER, {"n": n, "channel": "web"})]
        assert isinstance(driver(made, clock).batch(), Published)
    return made


def driver(world: World, clock: Clock) -> TableRun:
    run = world.table(SPEC)
    run.clients = replace(run.clients, now=clock, new_id=lambda: uuid.uuid4().hex)
    return run


def replay(world: World, clock: Clock) -> None:
    world.registry.register("other-value", WIDER)
    world.registry.missing.clear()
    driver(world, clock).replay(REPLAY)


def rebuild(world: World, clock: Clock, target: Target | None) -> None:
    built = RebuildLake(world.lake, (SPEC.identifier, SPEC.dead_letters_identifier))
    quietly: dict[str, Any] = {"wait": lambda s: None, "clock": lambda: 0.0, "report": lambda p: None}
    Rebuild(SPEC, driver(world, clock).clients, built, uuid.uuid4().hex[:8], target=target, **quietly).perform()


def listed(world: World) -> tuple[list[int], int]:
    """The offsets of the dead letters, and how many have marks."""
    found = list_dead_letters(world.lake, SPEC, limit=99)
    return sorted(letter.offset for letter in found.newest), found.replayed


def check_proven(world: World, letters: int) -> None:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    verification = verify_table(world.lake, SPEC, kafka=kafka)
    assert [str(finding) for finding in verification.findings] == []
    assert verification.counts.dead_letters == letters


@pytest.mark.parametrize("target", BOTH, ids=["rebuild", "rewind"])
def test_a_letter_that_was_replayed_is_a_row_without_a_mark(world: World, clock: Clock, target: Target | None) -> None:
    replay(world, clock)
    assert listed(world) == ([1, 4], 2)

    rebuild(world, clock, target)

    # before the point of a rewind, all is as it was then: the letter of offset 2 had not been replayed
    assert listed(world) == (([1, 4], 0) if target is None else ([1, 2, 4], 0))
    check_proven(world, 2 if target is None else 3)
    replay(world, clock)
    assert listed(world) == (([1, 4], 0) if target is None else ([1, 4], 1))
    check_proven(world, 2)


def test_letters_that_were_deleted_for_their_age_are_there_again_and_counted_once(world: World, clock: Clock) -> None:
    clock.now += timedelta(days=11)
    assert delete_old_letters(world.lake, SPEC, writer="w2", now=clock()) == 4
    check_proven(world, 4)

    rebuild(world, clock, None)

    assert listed(world) == ([1, 2, 4, 5], 0)
    check_proven(world, 4)
    clock.now += timedelta(days=11)
    assert delete_old_letters(world.lake, SPEC, writer="w2", now=clock()) == 4
    check_proven(world, 4)


def test_a_rewind_behind_which_letters_were_deleted_is_refused(world: World, clock: Clock) -> None:
    clock.now += timedelta(days=11)
    delete_old_letters(world.lake, SPEC, writer="w2", now=clock())

    with pytest.raises(RebuildError, match="have been deleted because of their age"):
        rebuild(world, clock, BOTH[1])

    check_proven(world, 4)


@pytest.mark.parametrize("target", BOTH, ids=["rebuild", "rewind"])
def test_letters_that_others_moved_meanwhile_are_staged_again(
    world: World, clock: Clock, target: Target | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another table of this pipeline was dropped before, and its letters stay where they are."""

    def reveal_later(act: Callable[..., object]) -> Callable[..., object]:
        def revealing(*given: Any, **named: Any) -> object:
            view = world.lake.load(SPEC.dead_letters_identifier)
            assert view is not None and view.head is not None
            world.lake.stage(view, base=view.head, branch="theirs", files=(), summary={})
            view = world.lake.load(SPEC.dead_letters_identifier)
            assert view is not None
            world.lake.publish(view, branch="theirs", tag="theirs", drop=["theirs"])
            return act(*given, **named)

        return revealing

    from frazil.materialize.rebuild import perform  # noqa: PLC0415 - its name is replaced

    monkeypatch.setattr(perform, "reveal", reveal_later(perform.reveal))
    rebuild(world, clock, target)

    assert listed(world) == ([1, 2, 4, 5], 0)
    check_proven(world, 4)
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    assert standing(view, pipeline=SPEC.pipeline).state.generation == 1
