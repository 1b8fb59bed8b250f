"""Dead letters of shapes: each one comes into all tables under one batch, or stays one of all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_letters import KEY, KEY_AGAIN, KEY_ID, LATE_ID, VALUE_ID
from ordered_changelogs import Order
from shaped_tables import TABLES, Shapes, specs
from test_shapes import roll_back
from whole_batches import LONG as LONG_VALUE
from whole_batches import framed

from frazil.dead_letters import list_dead_letters
from frazil.materialize.clients import REPLAY_STEPS
from frazil.materialize.replay.answer import answer_to, ask
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.model.errors import FrazilError, GroupApartError
from frazil.model.progress import Counts
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import examples, sampled

REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
Record = tuple[str, int | None, int, int]
"""A key, a value, a timestamp in milliseconds, and a partition."""


@dataclass
class LateShapes(Shapes):
    """Shapes of a topic in which some keys have a schema that comes late."""

    sent: list[tuple[str, bool, Order]] = field(default_factory=list)

    @classmethod
    def at(cls, folder: Path, **changes: Any) -> LateShapes:
        made = super().at(folder)
        assert isinstance(made, cls)
        made.tables = specs(key="avro", value="avro", **changes)
        made.world.registry.register("orders-value", LONG_VALUE)
        made.world.registry.register("orders-key", KEY)
        return made

    def write(self, *records: Record, late: bool = False) -> None:
        for key, n, stamp, partition in records:
            there = self.world.records[partition]
            self.sent.append((key, n is not None, (stamp, partition, len(there))))
            framed_key = framed(LATE_ID, KEY_AGAIN, {"id": key}) if late else framed(KEY_ID, KEY, {"id": key})
            there.append((framed_key, None if n is None else framed(VALUE_ID, LONG_VALUE, {"n": n}), stamp))

    def fix(self) -> None:
        self.world.registry.register("others-key", KEY_AGAIN)
        self.world.registry.missing.clear()

    def replay(self, observe: Callable[[str, str], None] = lambda when, step: None, **more: Any) -> ReplayResult:
        run = self.driver(**more)
        run.clients = replace(run.clients, observe=observe)
        return run.replay(REQUEST)

    def waiting(self) -> set[tuple[int, int]]:
        newest = list_dead_letters(self.world.lake, self.tables[0], limit=99).newest
        return {(each.partition, each.offset) for each in newest}

    def check(self) -> None:
        waiting = self.waiting()
        self.refused, self.by_key = sorted(waiting), {}
        for key, has_value, order in self.sent:
            if order[1:] not in waiting:
                self.by_key.setdefault(key, []).append((order, has_value))
        super().check()
        assert [str(finding) for each in self.against_kafka() for finding in each.findings] == []

    def epochs(self) -> list[int]:
        return [self.stands(table).state.epoch for table in TABLES]


@pytest.fixture
def shapes(tmp_path: Path) -> LateShapes:
    """Dead letters that are older or newer than rows, of another partition, or deletes."""
    made = LateShapes.at(tmp_path)
    made.write(("a", 1, 10, 0), ("b", 1, 10, 1))
    made.write(("a", 2, 5, 1), ("b", 2, 20, 0), ("c", 2, 7, 0), ("d", None, 30, 1), late=True)
    made.write(("c", None, 9, 0), ("d", 3, 40, 0))
    made.catch_up()
    made.fix()
    return made


def test_each_letter_comes_into_every_shape_under_one_batch(shapes: LateShapes) -> None:
    before = {table: shapes.stands(table).state.total() for table in TABLES}

    result = shapes.replay()

    assert (result.replayed, result.deletes, result.duplicates, dict(result.stayed)) == (4, 0, 0, {})
    assert result.tables == {"lake.log": 4, "lake.now": 1, "lake.history": 3}
    assert result.snapshots == tuple(shapes.stands(table).carrier.id for table in TABLES)
    more = {table: shapes.stands(table).state.total() - before[table] for table in TABLES}
    assert more == {
        "log": Counts(read=4, rows=4),
        "now": Counts(read=4, rows=1, duplicates=3),
        "history": Counts(read=4, rows=3, deletes=1),
    }
    group = shapes.stands("log").state.group
    assert group is not None
    assert group.total() == Counts(read=8, rows=8)
    epoch = shapes.stands("log").state.epoch
    assert all(f"frazil_epoch_{epoch}" in shapes.stands(table).view.tags for table in TABLES)
    shapes.check()
    assert shapes.replay().replayed == 0
    assert shapes.epochs() == [epoch] * 3


def test_a_letter_that_one_shape_cannot_compare_stays_one_of_all(tmp_path: Path) -> None:
    shapes = LateShapes.at(tmp_path)
    log, now, history = shapes.tables
    shapes.tables = (log, replace(now, order_by=None), history)
    shapes.write(("a", 1, 10, 0), ("b", 1, 10, 0))
    shapes.write(("a", 2, 20, 0), ("c", 1, 10, 0), late=True)
    shapes.write(("b", None, 30, 0))
    shapes.catch_up()
    shapes.fix()

    result = shapes.replay()

    assert (result.replayed, dict(result.stayed)) == (1, {"order_unknown": 1})
    assert shapes.waiting() == {(0, 3)}
    shapes.check()


def test_a_driver_performs_a_request_between_two_batches(shapes: LateShapes) -> None:
    ask(shapes.world.lake, "lake.log", REQUEST)
    shapes.write(("a", 9, 50, 0), ("b", None, 60, 1))

    shapes.catch_up()

    result = answer_to(shapes.world.lake, "lake.log", REQUEST)
    assert result is not None and (result.replayed, result.error) == (4, None)
    shapes.check()


Moment = tuple[str, str]
MOMENTS = sampled(
    [(when, step) for step in REPLAY_STEPS for when in ("before", "after")],
    keep=[("before", "replay_publish"), ("before", "replay_reveal")].__contains__,
)


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_replay_that_dies_is_finished_by_the_next_run(shapes: LateShapes, moment: Moment) -> None:
    def die(when: str, step: str) -> None:
        if (when, step) == moment:
            raise DiedError

    with pytest.raises(DiedError):
        shapes.replay(die)
    shapes.write(("b", 4, 25, 1), ("d", None, 45, 0))
    shapes.catch_up()

    shapes.check()
    shapes.replay()
    assert not shapes.waiting()
    shapes.check()


@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_a_batch_that_overtakes_a_replay_is_compared_with(shapes: LateShapes, moment: Moment) -> None:
    done: list[str] = []

    def overtake(when: str, step: str) -> None:
        if (when, step) == moment and not done:
            done.append(step)
            shapes.write(("b", 5, 15, 0), ("c", 4, 8, 1), ("d", None, 50, 1))
            shapes.catch_up()

    assert shapes.replay(overtake).replayed == 4

    assert not shapes.waiting()
    shapes.check()


@pytest.mark.parametrize("table", ["now", "history"])
def test_a_replay_that_one_shape_lacks_is_completed_before_anything_else(shapes: LateShapes, table: str) -> None:
    epoch = shapes.stands("log").state.epoch

    def around(name: str, commit: Commit) -> object:
        if lake.doing == "publish" and shapes.stands(TABLES[TABLES.index(table) - 1]).state.epoch > epoch:
            raise DiedError
        return commit()

    lake = WatchedLake(shapes.world.lake._settings, around=around)
    with pytest.raises(DiedError):
        shapes.replay(lake=lake)
    assert (shapes.stands("log").state.epoch, shapes.stands(table).state.epoch) == (epoch + 1, epoch)
    assert [str(finding) for each in shapes.verified() for finding in each.findings] == []

    shapes.catch_up()

    assert shapes.epochs() == [epoch + 1] * 3
    assert not shapes.waiting()
    shapes.check()


def test_a_shape_that_others_changed_before_it_had_a_replay_halts_the_group(shapes: LateShapes) -> None:
    epoch = shapes.stands("log").state.epoch

    def around(name: str, commit: Commit) -> object:
        if lake.doing == "publish" and shapes.stands("log").state.epoch > epoch:
            raise DiedError
        return commit()

    lake = WatchedLake(shapes.world.lake._settings, around=around)
    with pytest.raises(DiedError):
        shapes.replay(lake=lake)
    loaded = shapes.world.lake.catalog.load_table("lake.now")
    loaded.overwrite(loaded.scan().to_arrow())

    with pytest.raises(GroupApartError, match=r"lake\.now was changed by another writer"):
        shapes.replay()

    roll_back(shapes, epoch)
    assert shapes.replay().replayed == 4
    shapes.check()


def test_a_rollback_behind_a_replay_takes_it_back(shapes: LateShapes) -> None:
    epoch = shapes.stands("log").state.epoch
    shapes.replay()
    roll_back(shapes, epoch)

    assert len(shapes.waiting()) == 4
    shapes.check()
    assert shapes.replay().replayed == 4
    shapes.check()


COMMITS = sampled(
    [(act, number) for act in ACTS for number in range(1, 12)],
    keep=[("die after", 6), ("lose the answer", 5)].__contains__,
)


@pytest.mark.parametrize(("act", "number"), COMMITS)
def test_a_replay_survives_what_happens_to_each_commit(shapes: LateShapes, act: str, number: int) -> None:
    lake = WatchedLake(shapes.world.lake._settings, around=disturbed(act, number))
    with suppress(DiedError, FrazilError):
        shapes.replay(lake=lake)
    shapes.write(("b", 4, 25, 1))
    shapes.catch_up()

    shapes.check()
    shapes.replay()
    assert not shapes.waiting()
    shapes.check()


WRITTEN = st.tuples(
    st.sampled_from("abc"), st.integers(0, 9) | st.none(), st.integers(1, 12), st.integers(0, 1), st.booleans()
)


@settings(max_examples=examples(2, 80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WRITTEN, min_size=1, max_size=6), min_size=1, max_size=3), st.booleans())
def test_any_records_with_replays_between_their_batches_are_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]], is_between: bool
) -> None:
    shapes = LateShapes.at(tmp_path_factory.mktemp("lake"))
    for number, batch in enumerate(batches):
        if number == 1 and is_between:
            shapes.fix()
        for key, n, stamp, partition, late in batch:
            shapes.write((key, n, stamp, partition), late=late)
        shapes.catch_up()
        shapes.replay()
        shapes.check()
    shapes.fix()

    shapes.replay()

    assert not shapes.waiting()
    shapes.check()
