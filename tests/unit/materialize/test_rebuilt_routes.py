"""Tables of routes are read again, all together, by the routes of the spec (docs/decisions/0053)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from grouped_tables import DEAD_LETTERS, ROUTES, GroupWorld, SavedGroup, specs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rebuilt_routes import (
    check_nothing_left,
    check_rebuilt,
    findings,
    generations,
    rebuild_dies_before_refunds,
    rebuilding,
)
from rebuilt_tables import KilledError, killed_at
from test_groups import append_by_others

from frazil.materialize.clients import STEPS
from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import ToEarliest, ToOffsets
from frazil.model.errors import GroupApartError, Misuse, RebuildError
from frazil.model.progress import Counts
from frazil.model.routes import Group, Route
from frazil.model.spec import TableSpec
from tests.sampling import in_long_runs, sampled

SENT = ("order", "refund", "other", "order", "refund", "order", "other", "refund")
OTHERS = Route("others", "shop.Other")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedGroup:
    world = GroupWorld.at(tmp_path_factory.mktemp("group"))
    for some in (SENT[:6], SENT[6:]):
        world.send(*some)
        world.catch_up()
    return SavedGroup.of(world)


@pytest.fixture
def world(saved: SavedGroup) -> GroupWorld:
    """Batches have been published that end at the offsets 2, 6 and 8."""
    return saved.restored()


def test_all_tables_are_made_again_from_one_reading(world: GroupWorld) -> None:
    before = {table: world.stands(table) for table in ("orders", "refunds")}
    seen: list[Any] = []

    def look(progress: RebuildProgress) -> None:
        seen.append([world.stands(table).view.head for table in before])

    receipts = rebuilding(world, report=look).perform()

    check_rebuilt(world)
    assert seen and seen == [[at.view.head for at in before.values()]] * len(seen)
    assert [world.stands(table).view.uuid for table in before] == [at.view.uuid for at in before.values()]
    assert receipts[0].group == Counts(len(SENT), 6, dead_letters=2)
    assert [each.gaps for receipt in receipts for each in receipt.ranges] == [0, 0]
    assert [(each.table, each.counts.rows) for each in receipts] == [("lake.orders", 3), ("lake.refunds", 3)]
    assert {each.epoch for each in receipts} == {before["orders"].state.epoch + 1}
    world.send(*SENT)
    world.catch_up()
    check_rebuilt(world)


def test_all_records_are_divided_by_the_present_routes(world: GroupWorld) -> None:
    """The first records of an added route were dead letters, and become its rows."""
    more = specs(*ROUTES, OTHERS)
    world.catch_up(world.driver(*more))
    world.send("other", "order")
    world.catch_up(world.driver(*more))
    assert world.offsets("lake.others") == [8]

    rebuilding(world, *more).perform()

    assert world.offsets("lake.others") == world.named("other") == [2, 6, 8]
    assert world.offsets(DEAD_LETTERS, "offset") == []
    assert findings(world, more) == []
    assert generations(world, "orders", "refunds", "others") == [1, 1, 1]
    check_nothing_left(world, "orders", "refunds", "others")


def test_an_added_table_that_has_no_batch_yet_is_rebuilt_with_the_others(world: GroupWorld) -> None:
    """The process that made it died before it joined its group, whose ledger has read on since."""
    more = specs(*ROUTES, OTHERS)

    def dies(when: str, step: str) -> None:
        if (when, step) == ("before", "follow_spec"):
            raise KilledError

    with pytest.raises(KilledError):
        world.driver(*more, observe=dies).batch()
    world.send("order")
    world.catch_up()

    rebuilding(world, *more).perform()

    assert world.offsets("lake.others") == world.named("other")
    assert findings(world, more) == []


@pytest.mark.parametrize(
    "by", sampled(["materialize", "rebuild", "discard", "rewind"], keep={"materialize", "discard"}.__contains__)
)
def test_the_next_run_completes_a_rebuild_before_anything_is_read(
    world: GroupWorld, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_before_refunds(world, monkeypatch)
    assert findings(world) == []
    batch = world.stands("orders").state.itself
    world.send(*SENT)

    if by == "discard":
        assert not rebuilding(world).discard()
    elif by != "materialize":
        receipts = rebuilding(world, target=ToEarliest() if by == "rewind" else None).perform()
        assert [each.batch_id for each in receipts] == [batch.batch_id] * 2
    world.catch_up()

    check_rebuilt(world)


def test_nothing_is_dropped_that_a_table_lacks_while_another_one_is_yet_to_be_made(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A route was added after the ledger was replaced: without what is ready, the other table could never follow."""
    rebuild_dies_before_refunds(world, monkeypatch)

    assert not rebuilding(world, *specs(*ROUTES, OTHERS)).discard()

    check_rebuilt(world)


def test_a_driver_whose_routes_lack_a_table_completes_its_rebuild(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_before_refunds(world, monkeypatch)
    batch = world.stands("orders").state.itself

    world.catch_up(world.driver(*specs(ROUTES[0])))

    assert world.stands("refunds").state.itself == batch
    check_rebuilt(world)


@pytest.mark.parametrize(
    ("when", "step"),
    sampled(product(("before", "after"), STEPS), keep=[("after", "stage")].__contains__),
)
def test_a_rebuild_that_dies_at_a_step_is_continued(world: GroupWorld, when: str, step: str) -> None:
    def dies(when_now: str, step_now: str) -> None:
        if (when_now, step_now) == (when, step):
            raise KilledError

    process = rebuilding(world)
    process.clients = replace(process.clients, observe=dies)
    with suppress(KilledError):  # a rebuild has not all steps
        process.perform()
        return
    assert findings(world) == []
    world.send(*SENT)
    world.catch_up()
    rebuilding(world).perform()

    check_rebuilt(world)


def test_a_rebuild_may_die_at_any_commit(saved: SavedGroup) -> None:
    """The commit with number 18 replaces the ledger; the other table is ready before."""
    deaths = []
    for number, after in sampled(product(range(30), [False, True]), keep=[(18, True)].__contains__):
        world = saved.restored()
        process = rebuilding(world)
        with suppress(KilledError), killed_at(_log(world), number, after=after):
            process.perform()
            continue
        deaths.append((number, after, *generations(world)))
        assert findings(world) == []
        if number % 2 or not world.stands("orders").state.generation:
            rebuilding(world).perform()
        world.send(*SENT)
        world.catch_up()

        check_rebuilt(world, world.stands("orders").state.generation)
    assert [1, 0] in [[*each[2:]] for each in deaths], deaths


def _log(world: GroupWorld) -> Any:
    class Log:
        pass

    log: Any = Log()
    log.world = world
    return log


@pytest.mark.parametrize(
    "target", sampled([ToEarliest(), ToOffsets({"events": {0: 7}})], lambda each: each != ToEarliest())
)
def test_the_last_records_are_read_again(world: GroupWorld, target: ToEarliest | ToOffsets) -> None:
    append_by_others(world, "refunds")

    with pytest.raises(RebuildError, match=r"lake\.refunds: other writers have added 1 row"):
        rebuilding(world, target=target).perform()
    receipts = rebuilding(world, target=target, drop_foreign=True).perform()

    check_rebuilt(world)
    start = 0 if isinstance(target, ToEarliest) else 6
    assert {(r.start, r.end, r.gaps) for receipt in receipts for r in receipt.ranges} == {(start, len(SENT), 0)}
    world.send(*SENT)
    world.catch_up()
    check_rebuilt(world)


def test_a_rewind_divides_the_last_records_by_the_present_routes(world: GroupWorld) -> None:
    swapped = specs(Route("orders", "shop.Other"), Route("refunds", "shop.Refund"))

    rebuilding(world, *swapped, target=ToOffsets({"events": {0: 6}})).perform()

    assert world.offsets("lake.orders") == [0, 3, 5, 6]
    assert world.offsets("lake.refunds") == [1, 4, 7]
    assert world.offsets(DEAD_LETTERS, "offset") == [2]
    assert findings(world, swapped) == []


def test_a_table_whose_route_was_added_later_has_no_earlier_batch(world: GroupWorld) -> None:
    more = specs(*ROUTES, OTHERS)
    world.catch_up(world.driver(*more))
    world.send("other")
    world.catch_up(world.driver(*more))

    with pytest.raises(RebuildError, match="no snapshot from before that"):
        rebuilding(world, *more, target=ToOffsets({"events": {0: 6}})).perform()
    rebuilding(world, *more, target=ToOffsets({"events": {0: 8}})).perform()

    assert world.offsets("lake.others") == [8]
    assert findings(world, more) == []


def test_a_route_that_was_removed_is_restored_or_its_table_dropped(world: GroupWorld) -> None:
    fewer = specs(Route("orders", "shop.Order"))
    before = {table: world.stands(table).view.head for table in ("orders", "refunds")}

    with pytest.raises(RebuildError, match=r"lake\.refunds has 3 records that would be read again, .* no route to it"):
        rebuilding(world, *fewer).perform()
    assert {table: world.stands(table).view.head for table in before} == before
    world.lake.catalog.drop_table("lake.refunds")
    rebuilding(world, *fewer).perform()

    assert world.offsets(DEAD_LETTERS, "offset") == [1, 2, 4, 6, 7]
    assert findings(world, fewer) == []


def test_a_removed_route_that_took_nothing_since_is_no_obstacle_to_a_rewind(world: GroupWorld) -> None:
    fewer = specs(Route("orders", "shop.Order"))
    world.send("order", "refund")
    world.catch_up(world.driver(*fewer))
    head = world.stands("refunds").view.head

    rebuilding(world, *fewer, target=ToOffsets({"events": {0: 8}})).perform()

    assert world.stands("refunds").view.head == head
    assert world.offsets("lake.orders") == world.named("order")
    assert findings(world, fewer) == []
    world.catch_up()  # the route is added again
    assert findings(world) == []


def test_another_first_route_is_refused(world: GroupWorld) -> None:
    with pytest.raises(RebuildError, match="keeps the table that holds the state of its group"):
        rebuilding(world, *specs(*reversed(ROUTES))).perform()


def test_a_table_leaves_no_group(tmp_path: Path) -> None:
    """The pipeline of a group with this name is that of the table alone, too."""
    world = GroupWorld.at(tmp_path)
    group = Group("lake", "orders", ROUTES)
    world.send("order")
    world.catch_up(world.driver(*specs(group=group)))

    with pytest.raises(RebuildError, match=r"first route orders, and .* says none"):
        rebuilding(world, specs(group=None)[0]).perform()


def test_a_table_without_records_is_rebuilt(tmp_path: Path) -> None:
    world = GroupWorld.at(tmp_path)
    world.catch_up()

    rebuilding(world).perform()

    check_rebuilt(world)
    world.send(*SENT)
    world.catch_up()
    check_rebuilt(world)


@in_long_runs
def test_a_driver_that_publishes_meanwhile_is_followed(world: GroupWorld) -> None:
    more, driver = ["order", "other", "refund"], world.driver()

    class TopicsNow:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.topics, name)

    def publish(progress: RebuildProgress) -> None:
        if more:
            world.send(more.pop())
            driver.clients = replace(driver.clients, topics=world.topics)
            world.catch_up(driver)

    process = rebuilding(world, report=publish)
    process.clients = replace(process.clients, topics=TopicsNow())  # type: ignore[arg-type]
    process.perform()

    assert not more
    check_rebuilt(world)


@in_long_runs
def test_a_table_that_others_changed_before_it_was_replaced_halts_the_group(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_before_refunds(world, monkeypatch)
    head = world.stands("refunds").view.head
    append_by_others(world, "refunds")

    with pytest.raises(GroupApartError, match=rf"set its `main` to snapshot {head}"):
        world.driver().batch()
    with world.lake.catalog.load_table("lake.refunds").manage_snapshots() as manage:
        manage.set_current_snapshot(head)  # type: ignore[arg-type]
    world.catch_up()

    check_rebuilt(world)


def test_a_table_that_is_missing_is_made_by_a_run_first(world: GroupWorld) -> None:
    with pytest.raises(Misuse, match=r"no table lake\.others"):
        rebuilding(world, *specs(*ROUTES, OTHERS)).perform()


@in_long_runs
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.tuples(
            st.permutations(["refunds", "others"]).map(tuple),
            st.lists(st.sampled_from(["order", "refund", "other"]), min_size=1, max_size=8),
        ),
        min_size=2,
        max_size=4,
    ),
    until=st.integers(0, 12),
)
def test_any_records_are_divided_by_the_present_routes_after_a_rewind_and_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[tuple[str, ...], list[str]]], until: int
) -> None:
    """The kinds of the second and third table are swapped at random from batch to batch."""
    world, divided = GroupWorld.at(tmp_path_factory.mktemp("lake")), dict[int, tuple[str, ...]]()

    def swapped(names: tuple[str, ...]) -> tuple[TableSpec, ...]:
        kinds = zip(names, ("shop.Refund", "shop.Other"), strict=True)
        return specs(Route("orders", "shop.Order"), *(Route(name, kind) for name, kind in sorted(kinds)))

    def check(tables: tuple[TableSpec, ...]) -> None:
        found = {"orders": world.named("order"), "refunds": list[int](), "others": list[int]()}
        for offset, names in divided.items():
            for name, kind in zip(names, ("refund", "other"), strict=True):
                found[name] += [offset] * (offset in world.named(kind))
        assert {name: world.offsets(f"lake.{name}") for name in found} == found
        assert world.offsets(DEAD_LETTERS, "offset") == [] and findings(world, tables) == []

    for names, sent in batches:
        divided |= dict.fromkeys(range(len(world.values), len(world.values) + len(sent)), names)
        world.send(*sent)
        world.catch_up(world.driver(*swapped(names)))
    tables = swapped(names)
    check(tables)
    with suppress(RebuildError, Misuse):  # there is no batch before this offset, or nothing behind it
        target = ToOffsets({"events": {0: min(until, len(world.values))}})
        (receipt, *_) = rebuilding(world, *tables, target=target).perform()
        divided |= dict.fromkeys(range(receipt.ranges[0].start, len(world.values)), names)
    check(tables)

    rebuilding(world, *tables).perform()

    divided |= dict.fromkeys(divided, names)
    check(tables)
