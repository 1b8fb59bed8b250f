"""Dead letters of a group become rows of the table whose route takes them, once each, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from grouped_tables import DEAD_LETTERS, ROUTES, GroupWorld, specs
from policed_tables import LETTER_KEY, NO_KEY, REDACT
from whole_batches import framed

from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import REPLAY_STEPS, Observer
from frazil.materialize.outcome import Again, Published
from frazil.materialize.replay.answer import answer_to, ask
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.model.errors import FencedError
from frazil.model.plan import NothingToDo
from frazil.model.policed import policed
from frazil.model.policies import REDACTED, Policies
from frazil.model.progress import OffsetSums
from frazil.model.routes import Group, Route
from frazil.model.spec import TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import LONG, sampled

LATER = record(a_field("n", "int"), a_field("why", "string"), a_field("by", ["null", "string"]), name="shop.Refund")
LATER_ID = 4
THREE = (*ROUTES, Route("others", "shop.Other"))
REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
BAD, REFUND, OTHERS = 3, 4, (2, 5, 8)
"""The offsets of the records that are dead letters at first."""
AFTER = {"orders": [0, 6, 9], "refunds": [1, REFUND, 7], "others": list(OTHERS)}
"""The offsets of the rows after a replay with the routes `THREE`."""


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    """A group that read ten records before a route for others was added and a schema of refunds was registered."""
    made = GroupWorld.at(tmp_path)
    made.send("order", "refund", "other")
    made.values += [b"bad", framed(LATER_ID, LATER, {"n": 4, "why": "x", "by": "me"})]
    made.send("other", "order", "refund", "other", "order")
    made.catch_up()
    assert (made.offsets("lake.orders"), made.offsets("lake.refunds")) == ([0, 6, 9], [1, 7])
    assert made.offsets(DEAD_LETTERS, "offset") == [2, 3, 4, 5, 8]
    made.registry.register("another-value", LATER)
    made.registry.missing.clear()
    return made


def replayed(world: GroupWorld, tables: Sequence[TableSpec] = (), **more: Any) -> ReplayResult:
    return world.driver(*(tables or specs(*THREE)), **more).replay(REQUEST)


def catch_up(world: GroupWorld) -> None:
    world.catch_up(world.driver(*specs(*THREE)))


def findings(world: GroupWorld, *routes: Route) -> list[str]:
    side = KafkaSide(world.topics, cast(Any, world), world.registry)
    results = verify_together(world.lake, specs(*(routes or THREE)), kafka=side)
    return [str(found) for each in results for found in each.findings]


def letters(world: GroupWorld) -> list[int]:
    """The offsets of the dead letters that are no rows."""
    return sorted(letter.offset for letter in list_dead_letters(world.lake, specs()[0], limit=99).newest)


def assert_replayed(world: GroupWorld, *, more: dict[str, list[int]] | None = None) -> None:
    """Check the rows, dead letters and states after a replay, with the offsets of rows that came later."""
    rows = {table: sorted([*offsets, *(more or {}).get(table, [])]) for table, offsets in AFTER.items()}
    assert {table: world.offsets(f"lake.{table}") for table in AFTER} == rows
    assert letters(world) == [BAD]
    ledger = world.stands("orders").state
    assert ledger.group is not None
    total = ledger.group.total()
    taken = sum(map(len, rows.values()))
    assert (total.read, total.rows, total.dead_letters) == (len(world.values), taken, 1)
    for table, offsets in rows.items():
        state = world.stands(table).state
        assert state.itself == ledger.itself
        progress = state.sources[0].partitions[0]
        assert (progress.counts.read, progress.counts.rows, progress.next) == (len(offsets),) * 2 + (len(world.values),)
        assert progress.sums == OffsetSums(sum(offsets), sum(n * n for n in offsets))
    assert findings(world) == []


class KilledError(BaseException):
    """The process ends here."""


def test_each_dead_letter_becomes_a_row_of_the_table_that_takes_it(world: GroupWorld) -> None:
    result = replayed(world)

    assert (result.replayed, dict(result.stayed)) == (4, {"not_framed": 1})
    assert result.tables == {"lake.refunds": 1, "lake.others": 3}
    assert result.snapshots == tuple(world.stands(table).carrier.id for table in ("refunds", "others"))
    assert_replayed(world)
    epoch = world.stands("orders").state.epoch
    assert (replayed(world).replayed, world.stands("orders").state.epoch) == (0, epoch)


def test_letters_that_no_route_takes_stay(world: GroupWorld) -> None:
    result = replayed(world, specs(*ROUTES))

    assert (result.replayed, dict(result.stayed)) == (1, {"no_route": 3, "not_framed": 1})
    assert letters(world) == [2, 3, 5, 8]
    assert findings(world, *ROUTES) == []
    world.send("other", "order", "refund")
    assert isinstance(world.driver().batch(), Published)
    assert findings(world, *ROUTES) == []


def test_a_request_is_performed_by_the_driver_between_two_batches(world: GroupWorld) -> None:
    ask(world.lake, "lake.orders", REQUEST)
    world.send("other", "order")

    catch_up(world)

    result = answer_to(world.lake, "lake.orders", REQUEST)
    assert result is not None
    assert (result.replayed, result.error) == (4, None)
    assert_replayed(world, more={"others": [10], "orders": [11]})


def test_a_replay_that_dies_at_a_commit_is_finished_by_the_next_run(world: GroupWorld, tmp_path: Path) -> None:
    """A long run dies before and after each commit, any other after those that make something visible."""
    done = commits = 0

    def around(name: str, commit: Commit) -> object:
        nonlocal commits
        commits += LONG or lake.doing == "publish"
        is_last = commits == (done // 2 if LONG else done) + 1 and (LONG or lake.doing == "publish")
        if is_last and LONG and done % 2 == 0:
            raise KilledError
        answer = commit()
        if is_last:
            raise KilledError
        return answer

    while True:
        here = copied(world, tmp_path / str(done))
        commits, lake = 0, WatchedLake(here.lake._settings, around=around)
        try:
            replayed(here, lake=lake)
        except KilledError:
            done += 1
        else:
            break
        assert findings(here) == []
        catch_up(here)
        assert findings(here) == []
        here.send("order", "refund", "other")
        catch_up(here)
        replayed(here)
        assert_replayed(here, more={"orders": [10], "refunds": [11], "others": [12]})

    assert done >= (2 * 8 if LONG else 4)  # three tables and the marks are staged and published


def copied(world: GroupWorld, folder: Path) -> GroupWorld:
    """Make the same world again: a process can die in it once."""
    folder.mkdir()
    made = GroupWorld.at(folder)
    made.values += world.values[:10]
    made.catch_up()
    made.registry.register("another-value", LATER)
    made.registry.missing.clear()
    return made


MOMENTS = sampled(
    [(when, step) for step in ("evolve", *REPLAY_STEPS) for when in ("before", "after")],
    keep=lambda moment: moment in {("before", "replay_publish"), ("after", "replay_publish")},
)


def at(moment: tuple[str, str], act: Callable[[], object]) -> Observer:
    left = [act]

    def observe(when: str, step: str) -> None:
        if left and (when, step) == moment:
            left.pop()()

    return observe


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_two_replays_at_once_make_one_row_of_each_letter(world: GroupWorld, moment: tuple[str, str]) -> None:
    replayed(world, observe=at(moment, lambda: replayed(world)))

    assert_replayed(world)


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_batch_beside_a_replay_changes_nothing_of_it(world: GroupWorld, moment: tuple[str, str]) -> None:
    def publish() -> None:
        world.send("order", "refund", "other")
        catch_up(world)

    replayed(world, observe=at(moment, publish))

    assert_replayed(world, more={"orders": [10], "refunds": [11], "others": [12]})


@pytest.mark.parametrize("moment", [("after", "ingest"), ("after", "stage"), ("after", "publish")], ids=str)
def test_a_replay_beside_a_batch_discards_the_batch_at_most(world: GroupWorld, moment: tuple[str, str]) -> None:
    world.send("order", "refund", "other")
    outcome: object
    try:
        outcome = world.driver(*specs(*THREE), observe=at(moment, lambda: replayed(world))).batch()
    except FencedError as fenced:
        outcome = fenced

    assert isinstance(outcome, Published | Again | NothingToDo)
    catch_up(world)
    assert_replayed(world, more={"orders": [10], "refunds": [11], "others": [12]})


def test_a_table_that_others_change_gets_its_rows_on_top(world: GroupWorld) -> None:
    world.driver(*specs(*THREE)).create()

    def change() -> None:
        world.lake.catalog.load_table("lake.refunds").delete("kafka_offset = 1")

    replayed(world, observe=at(("before", "replay_publish"), change))

    assert world.offsets("lake.refunds") == [REFUND, 7]
    assert world.offsets("lake.others") == list(OTHERS)


def test_a_group_that_is_rolled_back_behind_a_replay_can_be_replayed_again(world: GroupWorld) -> None:
    replayed(world)
    for table in AFTER:
        parent = world.stands(table).carrier.parent_id
        assert parent is not None
        loaded = world.lake.catalog.load_table(f"lake.{table}")
        loaded.manage_snapshots().rollback_to_snapshot(parent).commit()
    assert letters(world) == [2, 3, 4, 5, 8]
    world.send("order")

    catch_up(world)
    replayed(world)

    assert_replayed(world, more={"orders": [10]})


def test_rows_of_a_route_that_is_removed_explain_the_marks_of_its_letters(world: GroupWorld) -> None:
    replayed(world)
    world.send("order", "refund")

    world.catch_up(world.driver(*specs(*ROUTES)))

    assert findings(world, *ROUTES) == []
    world.send("other")
    catch_up(world)
    assert_replayed(world, more={"orders": [10], "refunds": [11], "others": [12]})


def test_encrypted_letters_become_masked_rows(tmp_path: Path) -> None:
    policies = Policies((("why", REDACT),))
    grouped = [replace(each, group=replace(cast(Group, each.group), masked=True)) for each in specs(metadata=NO_KEY)]
    tables = [replace(grouped[0], dead_letter_key=LETTER_KEY)]
    tables.append(policed(grouped[1], policies, hash_key=None, dead_letter_key=LETTER_KEY))
    world = GroupWorld.at(tmp_path)
    world.values += [framed(LATER_ID, LATER, {"n": 0, "why": "secret", "by": None}), b"bad"]
    world.catch_up(world.driver(*tables))
    world.registry.register("another-value", LATER)
    world.registry.missing.clear()

    result = replayed(world, tables)

    assert (result.replayed, result.examples) == (
        1,
        {"not_framed": "events-0@1: hidden, because the table masks columns"},
    )
    assert world.offsets("lake.refunds", "why") == [REDACTED]
    side = KafkaSide(world.topics, cast(Any, world), world.registry)
    assert [found for each in verify_together(world.lake, tables, kafka=side) for found in each.findings] == []
