"""Batches of a group of tables: one read, one batch id, and what a crash or another tool leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, ROUTES, SCHEMAS, GroupWorld, SavedGroup, specs
from whole_batches import framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.receipt_lines import lines
from frazil.materialize.branches import Staged
from frazil.materialize.clients import STEPS, Observer
from frazil.materialize.outcome import Again, Published
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, excluded_schemas
from frazil.model.errors import (
    BadRecordLimitError,
    CountMismatchError,
    FencedError,
    GroupApartError,
    IncompatibleSchemaError,
    PausedError,
    SpecChangeError,
    StateLostError,
)
from frazil.model.plan import BatchPlan, NothingToDo
from frazil.model.routes import Route
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.watched_lake import Commit, WatchedLake, at_commit
from tests.sampling import sampled

SENT = ("order", "refund", "other", "order", "refund", "order")
AROUND = [
    ("before", "recover"),
    ("after", "repartition"),
    ("after", "ingest"),
    ("after", "stage"),
    ("after", "publish"),
]
MOMENTS = sampled([(when, step) for step in STEPS for when in ("before", "after")], keep=AROUND.__contains__)
"""The tests of every commit come between these."""


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    return GroupWorld.at(tmp_path)


@pytest.fixture(scope="module")
def first_batch(tmp_path_factory: pytest.TempPathFactory) -> SavedGroup:
    world = GroupWorld.at(tmp_path_factory.mktemp("group"))
    world.send(*SENT)
    world.catch_up()
    world.send(*SENT)
    return SavedGroup.of(world)


@pytest.fixture
def begun(first_batch: SavedGroup) -> GroupWorld:
    """One batch has been published, and another one is there to be read."""
    return first_batch.restored()


def watched(world: GroupWorld, around: Callable[[str, Commit], object]) -> WatchedLake:
    return WatchedLake(world.lake._settings, around=around)


def kill() -> None:
    raise KilledError


def at_moment(when: str, step: str, act: Callable[[], object]) -> Observer:
    left = [act]

    def observe(when_now: str, step_now: str) -> None:
        if left and (when_now, step_now) == (when, step):
            left.pop()()

    return observe


def killed_before_refunds(world: GroupWorld) -> None:
    """The ledger has the batch, and the process dies before the other table gets it."""

    epoch = world.stands("orders").state.epoch

    def around(name: str, commit: Commit) -> object:
        if lake.doing == "publish" and world.stands("orders").state.epoch > epoch:
            raise KilledError
        return commit()

    lake = watched(world, around)
    with pytest.raises(KilledError):
        world.driver(lake=lake).batch()
    assert [world.stands(table).state.epoch for table in ("orders", "refunds")] == [epoch + 1, epoch]


def append_by_others(world: GroupWorld, table: str) -> None:
    loaded = world.lake.catalog.load_table(f"lake.{table}")
    loaded.append(pa.table({"n": pa.array([-1], pa.int32())}))


def roll_back(world: GroupWorld, table: str) -> None:
    parent = world.stands(table).carrier.parent_id
    assert parent is not None
    world.lake.catalog.load_table(f"lake.{table}").manage_snapshots().rollback_to_snapshot(parent).commit()


def set_main(world: GroupWorld, table: str, snapshot_id: int) -> None:
    world.lake.catalog.load_table(f"lake.{table}").manage_snapshots().set_current_snapshot(snapshot_id).commit()


def test_each_record_is_in_the_table_that_takes_it_and_all_states_agree(world: GroupWorld) -> None:
    world.send(*SENT)
    world.catch_up()
    world.send(*SENT)

    (published,) = world.catch_up()

    world.assert_exactly_once()
    assert published.receipt.counts.short_formula() == "3 read = 3 rows"
    assert "  all tables of its group: 6 read = 5 rows + 1 dead letter" in lines(published.receipt)
    assert published.receipt.dead_letters_by_reason == {"no_route": 1}


def test_a_batch_that_a_table_gets_nothing_of_is_one_of_its_batches(world: GroupWorld) -> None:
    world.send("order", "order")
    world.catch_up()

    assert world.stands("refunds").state.epoch == 1
    world.assert_exactly_once()


def test_a_new_process_knows_the_schemas_that_no_route_takes(begun: GroupWorld) -> None:
    begun.catch_up()
    begun.send("other", "order")

    assert isinstance(begun.driver().batch(), Published)
    begun.assert_exactly_once()


@pytest.mark.parametrize(("when", "step"), MOMENTS)
def test_a_process_that_dies_at_a_step_loses_and_doubles_nothing(begun: GroupWorld, when: str, step: str) -> None:
    with pytest.raises(KilledError):
        begun.driver(observe=at_moment(when, step, kill)).batch()

    begun.catch_up()

    begun.assert_exactly_once()


def test_a_process_that_dies_at_a_commit_loses_and_doubles_nothing(begun: GroupWorld) -> None:
    commits = 0
    while True:
        before = commits % 2 == 0
        lake = watched(begun, at_commit(commits // 2 + 1, kill, before=before))
        try:
            begun.driver(lake=lake).batch()
        except KilledError:
            commits += 1
        else:
            break
        begun.catch_up()
        begun.assert_exactly_once()
        begun.send(*SENT)

    assert commits >= 2 * 6  # two tables and their dead letters are staged and published


@pytest.mark.parametrize(("when", "step"), MOMENTS)
def test_a_process_that_another_one_overtakes_at_a_step_publishes_nothing_twice(
    begun: GroupWorld, when: str, step: str
) -> None:
    outcome: object
    try:
        outcome = begun.driver(observe=at_moment(when, step, begun.catch_up)).batch()
    except FencedError as fenced:
        outcome = fenced

    assert isinstance(outcome, Published | Again | NothingToDo | FencedError)
    begun.catch_up()
    begun.assert_exactly_once()


def test_a_process_that_another_one_overtakes_at_a_commit_publishes_nothing_twice(begun: GroupWorld) -> None:
    number = 0
    overtaken = True
    while overtaken:
        number, overtaken = number + 1, False

        def overtake() -> None:
            nonlocal overtaken
            overtaken = True
            begun.catch_up()
            begun.send("order", "refund")
            begun.catch_up()

        try:
            begun.driver(lake=watched(begun, at_commit(number, overtake, before=True))).batch()
        except FencedError:
            overtaken = True
        begun.catch_up()
        begun.assert_exactly_once()
        begun.send(*SENT)

    assert number > 6


def test_a_table_that_lacks_the_last_batch_gets_it_before_the_next_plan(begun: GroupWorld) -> None:
    killed_before_refunds(begun)
    assert begun.check_all() == []

    assert isinstance(begun.driver().batch(), NothingToDo)

    begun.assert_exactly_once()


def test_a_table_whose_main_has_moved_gets_the_last_batch_on_top(begun: GroupWorld) -> None:
    killed_before_refunds(begun)
    append_by_others(begun, "refunds")

    begun.catch_up()

    assert begun.stands("refunds").state.foreign.rows_added == 1
    begun.lake.catalog.load_table("lake.refunds").delete("n = -1")
    begun.assert_exactly_once()


def test_the_last_batch_of_a_paused_group_is_completed(begun: GroupWorld) -> None:
    killed_before_refunds(begun)
    begun.lake.set_properties("lake.orders", put={PAUSED_PROPERTY: "by hand"})

    with pytest.raises(PausedError):
        begun.driver().batch()

    begun.assert_exactly_once()


def test_the_last_batch_of_a_route_that_was_removed_is_completed(begun: GroupWorld) -> None:
    killed_before_refunds(begun)

    begun.catch_up(begun.driver(*specs(ROUTES[0])))

    assert begun.offsets("lake.refunds") == begun.named("refund")


def test_a_wrong_count_of_what_is_staged_again_after_the_ledger_halts_the_group(
    begun: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = begun.stands("orders").state.epoch

    def look(view: TableView, plan: BatchPlan, staged: Staged) -> None:
        if begun.stands("orders").state.epoch > epoch:
            raise CountMismatchError("a wrong count", hint="")

    def around(name: str, commit: Commit) -> object:
        if lake.doing == "publish" and begun.stands("orders").state.epoch > epoch and not moved:
            moved.append(name)
            append_by_others(begun, "refunds")
        return commit()

    moved: list[str] = []
    lake = watched(begun, around)
    monkeypatch.setattr("frazil.materialize.publish.last_look", look)
    driver = begun.driver(lake=lake)

    assert isinstance(driver.batch(), Again)
    with pytest.raises(GroupApartError, match=r"lake\.refunds is at epoch 2 \(batch \w+\); a wrong count"):
        driver.batch()

    assert PAUSED_PROPERTY not in begun.stands("orders").view.properties
    monkeypatch.undo()
    begun.catch_up()
    begun.lake.catalog.load_table("lake.refunds").delete("n = -1")
    begun.assert_exactly_once()


def test_a_branch_that_another_tool_dropped_halts_the_group_until_it_is_rolled_back(begun: GroupWorld) -> None:
    killed_before_refunds(begun)
    view = begun.stands("refunds").view
    begun.lake.drop_branches(view, [name for name in view.branches if name != "main"])

    with pytest.raises(GroupApartError) as apart:
        begun.driver().batch()

    orders, refunds = begun.stands("orders"), begun.stands("refunds")
    assert f"lake.orders is at epoch 3 (batch {orders.state.batch_id})" in apart.value.what
    assert f"lake.refunds is at epoch 2 (batch {refunds.state.batch_id})" in apart.value.what
    assert "lake.refunds has no branch with the ledger's batch" in apart.value.what
    ways = f"lake.orders to snapshot {orders.carrier.parent_id}, lake.refunds to snapshot {refunds.carrier.id}"
    assert ways in apart.value.hint
    roll_back(begun, "orders")
    begun.catch_up()
    begun.assert_exactly_once()


@pytest.mark.parametrize("table", ["orders", "refunds"])
def test_a_table_that_was_rolled_back_alone_halts_the_group(begun: GroupWorld, table: str) -> None:
    begun.catch_up()
    heads = {name: begun.stands(name).carrier.id for name in ("orders", "refunds")}
    roll_back(begun, table)
    begun.send(*SENT)

    with pytest.raises(GroupApartError) as apart:
        begun.driver().batch()

    assert [problem.what for problem in begun.check_all()] == [apart.value.what]
    ways = ", ".join(f"lake.{name} to snapshot {head}" for name, head in heads.items())
    assert ways in apart.value.hint
    set_main(begun, table, heads[table])
    begun.catch_up()
    begun.assert_exactly_once()


def test_a_group_that_was_rolled_back_reads_on_from_there_even_if_a_process_dies(begun: GroupWorld) -> None:
    begun.catch_up()
    for table in ("orders", "refunds"):
        roll_back(begun, table)

    killed_before_refunds(begun)
    begun.catch_up()

    begun.assert_exactly_once()


@pytest.mark.parametrize("table", ["orders", "refunds"])
def test_a_table_that_is_rolled_back_before_the_batch_is_published_keeps_all_from_changing(
    world: GroupWorld, table: str
) -> None:
    world.send(*SENT)
    world.catch_up()
    world.send(*SENT)
    world.catch_up()
    world.send(*SENT)
    epochs = {name: world.stands(name).state.epoch for name in ("orders", "refunds")}

    outcome = world.driver(observe=at_moment("before", "publish", lambda: roll_back(world, table))).batch()

    assert isinstance(outcome, Again)
    assert {name: world.stands(name).state.epoch for name in epochs} == {**epochs, table: epochs[table] - 1}


def test_a_route_that_is_added_begins_at_the_next_offset_of_the_group(begun: GroupWorld) -> None:
    begun.catch_up()
    begun.send("other", "order")
    routes = specs(*ROUTES, Route("others", "shop.Other"))

    begun.catch_up(begun.driver(*routes))

    assert begun.offsets("lake.others") == [12]
    added, ledger = begun.stands("others").state, begun.stands("orders").state
    assert added.itself == ledger.itself
    assert (added.sources[0].partitions[0].origin, ledger.sources[0].partitions[0].origin) == (12, 0)
    assert ledger.group is not None
    assert ledger.group.partitions["events"][0].routed_since == 12
    assert ledger.group.untaken_schema_ids == ()


def test_a_route_that_is_removed_keeps_its_line_and_one_added_again_its_rows(begun: GroupWorld) -> None:
    begun.catch_up()
    begun.send("refund", "order")
    begun.catch_up(begun.driver(*specs(ROUTES[0])))
    ledger = begun.stands("orders").state.group
    assert ledger is not None
    line = ledger.line_of("refunds")
    assert line is not None and line.read == {"events": {0: 4}}
    begun.send("refund")

    begun.catch_up()

    assert begun.offsets("lake.refunds") == [n for n in begun.named("refund") if n != 12]
    assert begun.offsets(DEAD_LETTERS, "offset") == [*begun.named("other"), 12]


def test_an_added_route_whose_process_died_begins_where_the_group_is_then(begun: GroupWorld) -> None:
    routes = specs(*ROUTES, Route("others", "shop.Other"))
    with pytest.raises(KilledError):
        begun.driver(*routes, observe=at_moment("before", "stage", kill)).batch()
    begun.catch_up()
    begun.send("other")

    begun.catch_up(begun.driver(*routes))

    assert begun.offsets("lake.others") == [12]


class Overtaken(IcebergLake):
    """Another driver publishes before a table is loaded for the `number`th time."""

    def __init__(self, lake: IcebergLake, number: int, overtake: Callable[[], object]) -> None:
        super().__init__(lake._settings)
        self.number, self.overtake = number, overtake

    def load(self, identifier: str) -> TableView | None:
        self.number -= 1
        if self.number == 0:
            self.overtake()
        return super().load(identifier)


@pytest.mark.parametrize("number", [2, 3])
def test_a_check_while_a_batch_is_published_finds_nothing(begun: GroupWorld, number: int) -> None:
    checked = replace(begun, lake=Overtaken(begun.lake, number, begun.catch_up))

    assert checked.check_all() == []


def test_a_driver_that_joins_a_table_while_another_one_publishes_does_not_move_it(begun: GroupWorld) -> None:
    """The second driver joins the route that is added again, and publishes a batch, at each look of the first one."""
    begun.catch_up()
    for number in range(1, 7):
        begun.send("order", "other")
        begun.catch_up(begun.driver(*specs(ROUTES[0])))
        begun.send("refund", "order")

        outcome: object
        try:
            outcome = begun.driver(lake=Overtaken(begun.lake, number, begun.catch_up)).batch()
        except FencedError as fenced:
            outcome = fenced

        assert isinstance(outcome, Published | Again | NothingToDo | FencedError)
        begun.catch_up()
        begun.assert_exactly_once()


@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        ("refunds", "the table lake.refunds was dropped: lake.orders, which holds the state of lake.events, counts"),
        ("orders", "the table lake.orders was dropped, which holds the state of lake.events; lake.refunds is at epoch"),
    ],
)
def test_a_table_that_was_dropped_halts_the_group(begun: GroupWorld, dropped: str, said: str) -> None:
    begun.catch_up()
    begun.lake.catalog.drop_table(f"lake.{dropped}")

    assert [problem.what for problem in begun.check_all() if said in problem.what]
    with pytest.raises(StateLostError, match=said):
        begun.driver().batch()


def test_another_first_route_is_refused(begun: GroupWorld) -> None:
    begun.catch_up()

    with pytest.raises(SpecChangeError, match="the table of the first route holds the state of the group, so orders"):
        begun.driver(*specs(*reversed(ROUTES))).batch()

    with pytest.raises(SpecChangeError, match="the table of the first route holds the state of the group, so orders"):
        begun.driver(*specs(Route("new", "shop.Other"), ROUTES[1])).batch()


def test_a_group_whose_dead_letters_were_dropped_halts(begun: GroupWorld) -> None:
    begun.catch_up()
    begun.lake.catalog.drop_table(DEAD_LETTERS)

    with pytest.raises(StateLostError, match=r"with the 2 dead letters that the state of lake\.orders counts"):
        begun.driver().batch()


def test_a_schema_that_one_table_cannot_hold_is_excluded_for_the_group_if_the_spec_says_so(begun: GroupWorld) -> None:
    tables = specs(*ROUTES, on_incompatible_schema="dead_letter")
    begun.catch_up(begun.driver(*tables))
    text = record(a_field("n", "int"), a_field("why", "int"), name="shop.Refund")
    begun.registry.register("events-value", text)
    begun.values.append(framed(4, text, {"n": 1, "why": 2}))
    begun.send("order")

    begun.catch_up(begun.driver(*tables))

    assert begun.offsets(DEAD_LETTERS, "offset") == [*begun.named("other"), 12]
    assert begun.offsets("lake.orders") == begun.named("order")
    assert excluded_schemas(begun.stands("orders").view.properties).values == {4}
    assert excluded_schemas(begun.stands("refunds").view.properties).values == frozenset()


def test_a_schema_that_one_table_cannot_hold_pauses_the_group(begun: GroupWorld) -> None:
    begun.catch_up()
    text = record(a_field("n", "int"), a_field("why", "int"), name="shop.Refund")
    begun.registry.register("events-value", text)
    begun.values.append(framed(4, text, {"n": 1, "why": 2}))
    driver = begun.driver()
    assert isinstance(driver.batch(), Again)

    with pytest.raises(IncompatibleSchemaError, match=r"^lake\.refunds: the writer schema 4"):
        driver.batch()

    assert PAUSED_PROPERTY in begun.stands("orders").view.properties
    assert PAUSED_PROPERTY not in begun.stands("refunds").view.properties


def test_too_many_records_that_no_route_takes_pause_the_group(begun: GroupWorld) -> None:
    begun.catch_up()
    begun.send("other", "other", "order")
    tables = specs(*ROUTES, bad_record_limit=BadRecordLimit(share=0.5, at_least=2))

    with pytest.raises(BadRecordLimitError, match="no_route 2"):
        begun.driver(*tables).batch()

    begun.assert_exactly_once(read=12)
    assert PAUSED_PROPERTY in begun.stands("orders").view.properties


def test_a_topic_that_is_added_is_added_to_each_table(tmp_path: Path) -> None:
    world = GroupWorld(GroupWorld.at(tmp_path).lake, names=("events",))
    for _, text in SCHEMAS.values():
        world.registry.register("events-value", text)
    world.send(*SENT)
    world.catch_up()
    world.names = ("events", "more")
    tables = specs(*ROUTES, topics=("events", "more"))

    world.catch_up(world.driver(*tables))

    for table, sent in (("orders", "order"), ("refunds", "refund")):
        assert world.offsets(f"lake.{table}") == sorted(2 * world.named(sent))
        at = world.stands(table).state
        assert [source.topic for source in at.sources] == ["events", "more"]
        assert at.unnamed_topic == "events"
    group = world.stands("orders").state.group
    assert group is not None
    assert group.lines[1].read == {"events": {0: 2}, "more": {0: 2}}
    assert group.total().read == 12
