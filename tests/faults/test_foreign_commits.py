"""Others change the table between any two steps: they append, roll it back, or expire snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from pyiceberg.expressions import And, EqualTo

from frazil.local.supervisor import LocalServices
from frazil.materialize.branches import STAGE_PREFIX
from frazil.materialize.outcome import Again, Published
from frazil.materialize.run import TableRun
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import FencedError, StateLostError
from frazil.model.settings import CatalogSettings
from tests.faults.moments import BOUNDARIES, EVERY_MOMENT, MOMENTS, Moment, at
from tests.faults.stepped import Stepped
from tests.faults.world import World, assert_exactly_once, new_world, one_row, with_trigger
from tests.faults.write_modes import in_every_mode
from tests.sampling import CATALOGS, examples, sampled

DEAD_LETTERS_ON_A_BRANCH: list[Moment] = [("after", "prepare"), ("before", "publish"), ("before", "reveal")]
ON_SERVICES = sampled(BOUNDARIES, keep=lambda moment: moment[1] in ("plan", "stage", "publish", "reveal"))
"""Commits cost more on Glue and on REST, and what a batch makes of the change does not depend on the catalog."""

BEFORE_PUBLISH = MOMENTS[: MOMENTS.index(("after", "publish"))]
EMPTY_TABLES = sampled(
    product(CATALOGS, BOUNDARIES),
    keep=lambda case: (
        (case[0] == "jdbc" and case[1][1] in ("ingest", "stage", "publish", "announce"))
        or case == ("glue", ("before", "publish"))
    ),
)
MOST_CATALOGS = sampled(CATALOGS, keep="rest".__ne__)
"""In `make test`; one test of this file is on REST there, too."""


def moments_of(world: World) -> list[Moment]:
    return BOUNDARIES if world.setting.catalog.type == "jdbc" else ON_SERVICES


def between_any_two_steps(world: World, *acts: Callable[[], object]) -> None:
    """A batch for each moment, at which the acts happen; then all that is left."""
    world.produce(4)
    world.catch_up()
    for moment in moments_of(world):
        world.produce(4)
        run = world.run(at(moment, lambda: [act() for act in acts]))
        outcome = run.batch()
        assert isinstance(outcome, Published | Again), moment
        world.catch_up(run)
    assert_exactly_once(world)


@pytest.mark.parametrize("catalog", CATALOGS, indirect=True)
def test_a_user_inserts_between_any_two_steps(world: World) -> None:
    between_any_two_steps(world, world.insert)


def test_a_user_deletes_between_any_two_steps(world: World) -> None:
    between_any_two_steps(world, world.delete)


def test_a_user_changes_a_property_between_any_two_steps_and_keeps_it(world: World) -> None:
    between_any_two_steps(world, world.set_property)

    kept = [name for name in world.table().properties if name.startswith("user.")]
    assert len(kept) == len(moments_of(world))


def test_a_property_changed_between_staging_and_publishing_costs_no_second_staging(world: World) -> None:
    world.produce(4)
    run = world.run(at(("before", "publish"), world.set_property))

    run.batch()

    assert next(run.tables[0].stage_names).endswith("_2")
    assert_exactly_once(world)


@pytest.mark.parametrize("catalog", MOST_CATALOGS, indirect=True)
def test_a_users_changes_are_named_by_the_receipt_and_by_the_state(world: World) -> None:
    world.produce(6)
    world.catch_up()
    world.produce(6)
    run = world.run(at(("after", "stage"), lambda: (world.insert(), world.delete())))

    outcome = run.batch()

    assert isinstance(outcome, Published)
    assert [name.split()[0] for name in outcome.receipt.foreign] == ["append", outcome.receipt.foreign[1].split()[0]]
    assert outcome.standing.state.foreign.names == outcome.receipt.foreign
    assert_exactly_once(world)


def test_the_table_is_rolled_back_between_any_two_steps(world: World) -> None:
    between_any_two_steps(world, world.roll_back)


def test_snapshots_expire_with_the_youngest_cutoff_between_any_two_steps(world: World) -> None:
    between_any_two_steps(world, world.expire)


def test_a_user_inserts_and_snapshots_expire_between_any_two_steps(world: World) -> None:
    between_any_two_steps(world, world.insert, world.expire)


@pytest.mark.parametrize(("catalog", "moment"), EMPTY_TABLES, indirect=["catalog"])
def test_a_user_inserts_into_a_table_that_has_no_batch_yet_and_snapshots_expire(world: World, moment: Moment) -> None:
    world.run().create()
    world.produce(4)

    run = world.run(at(moment, lambda: (world.insert(), world.expire())))

    assert isinstance(run.batch(), Published)
    world.catch_up(run)
    assert_exactly_once(world)


@in_every_mode
@pytest.mark.parametrize("seed", range(examples(2, 12)))
def test_any_mixture_of_changes_by_others(local_world: World, seed: int) -> None:
    draw = random.Random(seed)
    mild = [local_world.insert, local_world.delete, local_world.set_property]
    local_world.produce(4)
    local_world.catch_up()

    for _ in range(8):
        local_world.produce(4)
        chosen = [at(draw.choice(EVERY_MOMENT), draw.choice(mild)) for _ in range(3)]
        run = local_world.run(lambda *moment, acts=tuple(chosen): [act(*moment) for act in acts])
        local_world.catch_up(run)

    assert_exactly_once(local_world)


@pytest.mark.parametrize("moment", [("after", "stage"), ("before", "publish")], ids=" ".join)
def test_what_somebody_appends_to_a_staged_branch_is_never_published(world: World, moment: Moment) -> None:
    world.produce(6)

    def append() -> None:
        branch = next(name for name in world.standing().view.branches if name.startswith(STAGE_PREFIX))
        world.table().append(one_row(-1), branch=branch)

    outcome = world.run(at(moment, append)).batch()

    assert isinstance(outcome, Published)
    assert_exactly_once(world)


@pytest.mark.parametrize("moment", DEAD_LETTERS_ON_A_BRANCH, ids=" ".join)
def test_dead_letters_that_moved_since_theirs_were_prepared_keep_what_others_did(world: World, moment: Moment) -> None:
    world.produce(6)
    world.catch_up()
    world.produce(6)
    gone = min(world.bad)

    def erase() -> None:
        table = world.table(world.spec.dead_letters_identifier)
        table.delete(And(EqualTo("partition", gone[0]), EqualTo("offset", gone[1])))

    world.catch_up(world.run(at(moment, erase)))

    dead = world.scanned(world.spec.dead_letters_identifier, "partition", "offset")
    assert dead == sorted(place for place in world.bad if place != gone)


def test_an_adopted_table_survives_expiry_before_its_first_batch(
    services: LocalServices, catalog: CatalogSettings
) -> None:
    """Of append mode: a row without an identity cannot be in another table."""
    world = with_trigger(new_world(services, catalog), rows=6)
    world.lake.catalog.create_namespace(world.spec.database)
    world.lake.catalog.create_table(world.spec.identifier, one_row(0).schema)
    world.insert()
    run = world.run(at(("after", "plan"), lambda: (world.insert(), world.expire())))
    run.adopt = True
    world.produce(4)

    assert isinstance(run.batch(), Published)

    world.catch_up(run)
    assert_exactly_once(world)


def test_a_zombie_that_publishes_after_its_successor_was_rolled_back_brings_its_own_dead_letters(world: World) -> None:
    """The successor's publish made the zombie's batch impossible, and the rollback made it possible again."""
    world.produce(6)
    world.catch_up()
    world.produce(6)
    zombie = Stepped(world)
    zombie.until(("after", "stage"))
    world.produce(6)
    assert isinstance(with_trigger(world, rows=100).run().batch(), Published)
    world.roll_back()

    assert isinstance(zombie.finish(), Published)
    world.catch_up()
    assert_exactly_once(world)


@pytest.mark.parametrize("catalog", MOST_CATALOGS, indirect=True)
def test_a_zombie_whose_base_has_expired_is_fenced(world: World) -> None:
    world.produce(12)
    zombie = Stepped(world)
    zombie.until(("before", "prepare"))
    world.catch_up()
    world.expire()

    assert isinstance(zombie.finish(), FencedError)
    assert_exactly_once(world)


def test_a_broken_chain_of_snapshots_halts_and_never_starts_over(world: World) -> None:
    world.produce(4)
    world.catch_up()
    world.insert()
    world.insert()
    world.expire()
    world.produce(4)

    for _ in range(2):
        with_state_lost(world.run())


def test_a_chain_that_breaks_while_a_batch_is_on_its_way_halts_it(world: World) -> None:
    world.produce(4)
    world.catch_up()
    world.produce(4)
    on_its_way = BEFORE_PUBLISH.index(("before", "ingest"))
    for moment in BEFORE_PUBLISH[on_its_way : on_its_way + 3]:
        run = world.run(at(moment, lambda: (world.insert(), world.insert(), world.expire())))
        with_state_lost(run)


def with_state_lost(run: TableRun) -> None:
    with pytest.raises(StateLostError):
        run.batch()


def test_the_checkpoint_is_the_snapshot_of_the_last_batch(world: World) -> None:
    world.produce(8)

    run = world.catch_up()

    at_end = world.standing()
    assert at_end.view.tags == {CHECKPOINT_TAG: at_end.carrier.id}
    assert at_end.state.writer == run.writer
    assert set(at_end.view.branches) == {"main"}
    dead_letters = world.lake.load(world.spec.dead_letters_identifier)
    assert dead_letters is not None
    assert set(dead_letters.branches) == {"main"}


def test_dead_letters_are_rolled_back_with_their_batch_although_their_own_snapshots_have_expired(
    world: World,
) -> None:
    for _ in range(3):
        world.produce(6)
        world.catch_up()
    world.expire(world.spec.dead_letters_identifier)
    world.roll_back()

    world.catch_up()

    assert_exactly_once(world)


def test_metadata_files_of_long_ago_do_not_pile_up(local_world: World) -> None:
    local_world.run().create()
    with local_world.table().transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "2"})
    for _ in range(3):
        local_world.produce(4)
        local_world.catch_up()

    folder = Path(local_world.table().location().removeprefix("file://")) / "metadata"

    assert len(list(folder.glob("*.metadata.json"))) == 3
    assert_exactly_once(local_world)
