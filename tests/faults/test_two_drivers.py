"""Two drivers of one table: whatever the order of their steps, each record is published once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from frazil.materialize.clients import STEPS
from frazil.materialize.outcome import Again, Published
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import FencedError
from frazil.model.plan import NothingToDo
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.faults.moments import BOUNDARIES, EVERY_MOMENT, MOMENTS, Moment
from tests.faults.stepped import Stepped
from tests.faults.world import World, assert_exactly_once
from tests.faults.write_modes import in_every_mode
from tests.sampling import CATALOGS, sampled

BEFORE_PUBLISH = MOMENTS[: MOMENTS.index(("after", "publish"))]
PLANNED = BEFORE_PUBLISH[BEFORE_PUBLISH.index(("after", "plan")) :]
AT_COMMITS = [("before", "stage"), ("before", "publish")]
FENCED = sampled(
    product(CATALOGS, PLANNED),
    keep=lambda case: (
        (case[0] != "rest" and case[1] in AT_COMMITS) or case in [("jdbc", PLANNED[0]), ("jdbc", PLANNED[-1])]
    ),
)
WHERE_SUCCESSORS_STAND = {"jdbc": ["plan", "stage", "publish", "announce"], "glue": ["publish"], "rest": []}
SUCCESSORS = sampled(
    product(CATALOGS, [moment for moment in MOMENTS if moment[0] == "after"]),
    keep=lambda case: case[1][1] in WHERE_SUCCESSORS_STAND[case[0]],
)


def zombies_beside(successor_at: Moment, world: World) -> list[Moment]:
    """Where the zombie waits: before every step up to the publish, on the embedded catalog and around its commits."""
    commits = successor_at[1] in ("stage", "publish") and world.setting.catalog.type == "jdbc"
    before = [moment for moment in BOUNDARIES if moment in BEFORE_PUBLISH]
    return sampled(before, keep=lambda moment: commits or moment in AT_COMMITS)


@pytest.mark.parametrize(("catalog", "successor_at"), SUCCESSORS, indirect=["catalog"])
def test_a_zombie_that_goes_on_while_its_successor_stands_at_a_step_changes_nothing(
    world: World, successor_at: Moment
) -> None:
    for zombie_at in zombies_beside(successor_at, world):
        world.produce(4)
        zombie, successor = Stepped(world), Stepped(world)
        zombie.until(zombie_at)
        successor.until(successor_at)
        ends = [zombie.finish(), successor.finish()]

        assert all(isinstance(end, Published | FencedError | NothingToDo | Again) for end in ends), (zombie_at, ends)
        assert len([end for end in ends if isinstance(end, Published)]) == 1, (zombie_at, ends)
        world.catch_up()
        assert_exactly_once(world)


def test_a_zombie_that_published_goes_on_when_its_successor_has_found_nothing_to_do(world: World) -> None:
    for zombie_at in (moment for moment in BOUNDARIES if moment not in BEFORE_PUBLISH):
        world.produce(4)
        zombie = Stepped(world)
        zombie.until(zombie_at)
        ends = [Stepped(world).finish(), zombie.finish()]

        assert [type(end) for end in ends] == [NothingToDo, Published], (zombie_at, ends)
        assert_exactly_once(world)


@pytest.mark.parametrize(("catalog", "zombie_at"), FENCED, indirect=["catalog"])
def test_a_zombie_whose_successor_published_is_fenced(world: World, zombie_at: Moment) -> None:
    world.produce(12)
    zombie = Stepped(world)
    zombie.until(zombie_at)
    world.catch_up()
    head = world.standing().view.head

    end = zombie.finish()

    assert isinstance(end, FencedError)
    assert world.standing().view.head == head
    assert_exactly_once(world)


@pytest.mark.parametrize("zombie_at", [("after", "publish"), ("before", "reveal"), ("after", "reveal")], ids=" ".join)
def test_a_zombie_that_published_leaves_alone_what_its_successor_has_prepared(world: World, zombie_at: Moment) -> None:
    world.produce(12)
    zombie, successor = Stepped(world), Stepped(world)
    zombie.until(zombie_at)
    successor.until(("after", "prepare"))

    zombie.finish()

    assert isinstance(successor.finish(), Published)
    world.catch_up()
    assert_exactly_once(world)


@in_every_mode
@pytest.mark.parametrize("at", [("before", "publish"), ("after", "publish")], ids=" ".join)
def test_two_drivers_that_staged_the_same_batch_publish_it_once(world: World, at: Moment) -> None:
    world.produce(6)
    first, second = Stepped(world), Stepped(world)
    first.until(("after", "stage"))
    second.until(("after", "stage"))
    first.until(at)

    ends = [second.finish(), first.finish()]

    assert sorted(type(end).__name__ for end in ends) == ["FencedError", "Published"]
    world.catch_up()
    assert_exactly_once(world)


@pytest.mark.parametrize("catalog", CATALOGS, indirect=True)
def test_two_live_drivers_that_run_freely_publish_each_record_once(world: World) -> None:
    world.produce(36)
    runs = [world.run() for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        reports = [report for each in pool.map(lambda run: run_once([run], Stopping()), runs) for report in each]

    assert {type(report.failure) for report in reports} <= {type(None), FencedError}
    world.catch_up()
    assert_exactly_once(world)
    assert world.standing().state.epoch == 6


def test_a_receipt_is_of_its_own_batch_although_a_successor_has_published_since(world: World) -> None:
    world.produce(12)

    def overtaken(name: str, commit: Commit) -> object:
        answer = commit()
        if name == "rows publish":
            world.catch_up()
        return answer

    outcome = world.run(lake=WatchedLake(world.setting.catalog, around=overtaken)).batch()

    assert isinstance(outcome, Published)
    assert outcome.receipt.epoch == 1
    assert outcome.receipt.snapshot_id == world.standing().carrier.parent_id
    assert_exactly_once(world)


def test_every_step_is_a_moment() -> None:
    assert [(when, step) for step in STEPS for when in ("before", "after")] == EVERY_MOMENT
