"""Dead letters of a batch become visible, although the driver that published it died and another one is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import Observer
from frazil.materialize.dead_letters import drop_others
from frazil.materialize.outcome import Published
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(bad_record_limit=BadRecordLimit.off())
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    return made


class DiedError(Exception):
    """The process ends here: nothing cleans up."""


def driver(world: World, observe: Observer) -> TableRun:
    run = world.table(SPEC)
    return replace(run, clients=replace(run.clients, observe=observe))


def publish_and_die(world: World) -> None:
    """Publish a batch, and die before its dead letters are revealed."""

    def die(when: str, step: str) -> None:
        if (when, step) == ("before", "reveal"):
            raise DiedError

    with pytest.raises(DiedError):
        driver(world, die).batch()


def dead_offsets(world: World) -> list[int]:
    return sorted(letter.offset for letter in list_dead_letters(world.lake, SPEC, limit=9).newest)


@pytest.mark.parametrize("step", ["recover", "follow_spec"])
def test_a_driver_that_loads_the_batch_of_a_dead_one_reveals_its_dead_letters(world: World, step: str) -> None:
    world.values += [framed(1, LONG, {"n": 0}), b"bad"]
    assert isinstance(world.table(SPEC).batch(), Published)
    done: list[str] = []

    def meanwhile(when: str, now: str) -> None:
        if (when, now) == ("after", step) and not done:
            done.append(now)
            world.values += [framed(1, LONG, {"n": 2}), b"bad"]
            publish_and_die(world)
            world.registry.register("orders-value", WIDER)
            world.values += [framed(2, WIDER, {"n": 4, "channel": "web"}), b"bad"]
            slow.clients = replace(slow.clients, topics=world.topics)

    slow = driver(world, meanwhile)

    assert isinstance(slow.batch(), Published)

    assert dead_offsets(world) == [1, 3, 5]
    assert verify_table(world.lake, SPEC).clean


def test_a_driver_that_wakes_late_drops_nothing_of_a_batch_that_is_read_after_a_rollback(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.values += [framed(1, LONG, {"n": 0}), b"bad"]
    world.table(SPEC).batch()
    world.values += [framed(1, LONG, {"n": 2})]
    late: list[Callable[[], None]] = []
    with monkeypatch.context() as slow:
        slow.setattr("frazil.materialize.run.drop_others", lambda *a, **k: late.append(partial(drop_others, *a, **k)))
        world.table(SPEC).batch()
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    parent = standing(view, pipeline=SPEC.pipeline).carrier.parent_id
    assert parent is not None
    world.lake.catalog.load_table(SPEC.identifier).manage_snapshots().rollback_to_snapshot(parent).commit()
    world.values += [b"bad"]

    def wake(when: str, step: str) -> None:
        if (when, step) == ("before", "publish"):
            late.pop()()

    run = driver(world, wake)
    run.clients = replace(run.clients, new_id=lambda: "another")
    assert isinstance(run.batch(), Published)

    assert dead_offsets(world) == [1, 3]
    assert verify_table(world.lake, SPEC).clean
