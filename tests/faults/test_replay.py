"""Replays of dead letters: each becomes one row, whatever happens between the commits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.materialize.clients import REPLAY_STEPS
from frazil.materialize.outcome import Again, Published
from frazil.materialize.replay.answer import answer_to, ask
from frazil.materialize.state import Standing
from frazil.verify.table import verify_table
from tests.faults.moments import EVERY_MOMENT, MADE_READY, Moment
from tests.faults.replays import include, produce_excluded, replay, request, with_excluded
from tests.faults.stepped import Stepped
from tests.faults.world import World, assert_exactly_once, kafka_side
from tests.faults.write_modes import in_every_mode
from tests.sampling import combined, sampled


@in_every_mode
def test_dead_letters_become_rows_in_one_snapshot(world: World) -> None:
    schema_id = with_excluded(world)
    world.produce(6)
    produce_excluded(world, schema_id, 4)
    world.catch_up()
    before = world.standing()
    include(world)

    performed = replay(world, request(schema_id=schema_id))

    now = world.standing()
    assert performed.replayed == 4
    assert performed.snapshots == (now.carrier.id,)
    assert now.carrier.parent_id == before.carrier.id
    assert now.carrier.summary["frazil.replayed"] == "4"
    assert now.state.total().read == before.state.total().read
    assert became(now, before) == 4
    assert [p.next for p in now.state.sources[0].partitions.values()] == [
        p.next for p in before.state.sources[0].partitions.values()
    ]
    world.replayed()
    assert_exactly_once(world, kafka_side(world))
    marks = world.scanned(world.spec.dead_letters_identifier, "reason", "replayed_snapshot_id", "batch_id")
    assert [mark[1:] for mark in marks if mark[0] == "replayed"] == [(now.carrier.id, now.state.batch_id)] * 4
    assert {mark[1] for mark in marks if mark[0] != "replayed"} == {None}


def became(now: Standing, before: Standing) -> int:
    """Return how many letters became rows, or duplicates of rows, in between."""
    counts = now.state.total() - before.state.total()
    return counts.rows + counts.duplicates


@pytest.fixture
def broken(local_world: World) -> tuple[World, int]:
    """A table with four dead letters of an excluded schema, which is included again, beside two others."""
    schema_id = with_excluded(local_world)
    local_world.produce(6)
    produce_excluded(local_world, schema_id, 4)
    local_world.catch_up()
    include(local_world)
    return local_world, schema_id


def test_a_second_replay_does_nothing(broken: tuple[World, int]) -> None:
    world, _ = broken
    replay(world)
    head = world.standing().view.head

    again = replay(world)

    assert again.replayed == 0
    assert again.stayed == {"not_framed": 2}
    assert world.standing().view.head == head
    world.replayed()
    assert_exactly_once(world)


@in_every_mode
def test_a_running_driver_performs_the_request_and_answers(broken: tuple[World, int]) -> None:
    world, schema_id = broken
    wanted = request(schema_id=schema_id)
    ask(world.lake, world.spec.identifier, wanted)
    world.produce(3)

    world.catch_up()

    result = answer_to(world.lake, world.spec.identifier, wanted)
    assert result is not None
    assert (result.replayed, result.error) == (4, None)
    world.replayed()
    assert_exactly_once(world)


BESIDE = sampled(
    [moment for moment in EVERY_MOMENT if moment[1] not in MADE_READY and moment[1] != "announce"],
    keep=[("before", "prepare"), ("before", "publish"), ("before", "reveal")].__contains__,
)


@pytest.mark.parametrize("at", BESIDE, ids=" ".join)
def test_a_replay_fences_no_driver_in_the_middle_of_a_batch(broken: tuple[World, int], at: Moment) -> None:
    world, _ = broken
    world.produce(4)
    driver = Stepped(world)
    driver.until(at)

    performed = replay(world)

    assert performed.replayed == 4
    assert isinstance(driver.finish(), Published if at in PUBLISHED else Again)
    world.replayed()
    world.catch_up()
    assert_exactly_once(world, kafka_side(world))


PUBLISHED = EVERY_MOMENT[EVERY_MOMENT.index(("after", "publish")) :]
"""Moments at which the driver's batch is visible."""


DIES = combined(("after", "before"), REPLAY_STEPS)


class Died(BaseException):
    """The process ends here: nothing cleans up."""


@pytest.mark.parametrize("moment", DIES, ids=" ".join)
def test_a_replay_that_dies_is_finished_by_the_next_run(broken: tuple[World, int], moment: tuple[str, str]) -> None:
    world, _ = broken

    def die(when: str, step: str) -> None:
        if (when, step) == moment:
            raise Died

    with pytest.raises(Died):
        world.run(die).replay(request())
    world.produce(3)

    world.catch_up()

    visible = moment[1] == "replay_reveal" or moment == ("after", "replay_publish")
    if visible:
        world.replayed()
    assert_exactly_once(world)
    assert replay(world).replayed == (0 if visible else 4)
    world.replayed()
    assert_exactly_once(world)


@pytest.mark.parametrize("moment", DIES, ids=" ".join)
def test_a_replay_that_sleeps_while_another_finishes_doubles_nothing(
    broken: tuple[World, int], moment: tuple[str, str]
) -> None:
    world, _ = broken
    found: list[int] = []

    def sleep(when: str, step: str) -> None:
        if (when, step) == moment and not found:
            found.append(replay(world).replayed)

    slept = world.run(sleep).replay(request()).replayed

    assert slept + found[0] == 4
    world.replayed()
    assert_exactly_once(world)


def test_a_driver_that_publishes_while_a_replay_sleeps_is_not_lost(broken: tuple[World, int]) -> None:
    world, _ = broken
    world.produce(3)
    slept: list[int] = []

    def sleep(when: str, step: str) -> None:
        if (when, step) == ("before", "replay_publish") and not slept:
            slept.append(1)
            world.catch_up()

    assert world.run(sleep).replay(request()).replayed == 4
    world.replayed()
    assert_exactly_once(world)


@pytest.mark.parametrize("expired", [False, True])
def test_a_rollback_behind_a_replay_takes_the_marks_off(broken: tuple[World, int], *, expired: bool) -> None:
    world, _ = broken
    replay(world)
    if expired:
        world.expire(world.spec.dead_letters_identifier)
    world.roll_back()
    assert verify_table(world.lake, world.spec).clean
    world.produce(3)

    world.catch_up()

    assert_exactly_once(world)
    assert replay(world).replayed == 4
    world.replayed()
    assert_exactly_once(world)


def test_marks_survive_another_engines_rewrite_between_the_two_commits(broken: tuple[World, int]) -> None:
    world, _ = broken

    def rewrite(when: str, step: str) -> None:
        if (when, step) == ("after", "replay_publish"):
            dead = world.table(world.spec.dead_letters_identifier)
            dead.overwrite(dead.scan().to_arrow())

    world.run(rewrite).replay(request())

    world.replayed()
    assert_exactly_once(world)


def test_verify_finds_a_marked_dead_letter_without_its_row(broken: tuple[World, int]) -> None:
    world, _ = broken
    replay(world)
    world.replayed()
    dead = world.table(world.spec.dead_letters_identifier)
    letters = dead.scan().to_arrow()
    bad = next(iter(world.bad))
    marks = letters.filter(pc.equal(letters["reason"], "replayed"))
    index = marks.schema.get_field_index("offset")
    moved = marks.slice(0, 1).set_column(index, marks.schema.field(index), pa.array([bad[1]]))
    index = marks.schema.get_field_index("partition")
    dead.append(moved.set_column(index, marks.schema.field(index), pa.array([bad[0]], pa.int32())))

    kinds = {finding.kind.value for finding in verify_table(world.lake, world.spec).findings}

    assert kinds == {"dead_letter_count", "replayed_without_row"}
