"""Shapes are read again, all tables together, while readers see them as they were (docs/decisions/0053)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rebuilt_shapes import (
    TopicsNow,
    check_rebuilt,
    made_otherwise,
    otherwise,
    rebuild_dies_at,
    rebuilding,
    statuses,
)
from rebuilt_tables import KilledError, killed_at
from shaped_tables import TABLES, SavedShapes, Sent, Shapes
from test_added_partitions_of_shapes import GrowingShapes
from test_shapes import LATE, SOME, rewrite_by_others

from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import ToEarliest, ToOffsets
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.model.errors import Misuse, RebuildError, SpecChangeError
from frazil.model.progress import Counts
from tests.sampling import in_long_runs, sampled


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedShapes:
    return SavedShapes.of(made_otherwise(tmp_path_factory.mktemp("lake") / "warehouse"))


@pytest.fixture
def shapes(saved: SavedShapes) -> Shapes:
    return saved.restored()


def test_all_tables_are_made_again_from_one_reading(shapes: Shapes) -> None:
    before = {table: shapes.stands(table).view for table in TABLES}
    epoch = shapes.stands("log").state.epoch
    with pytest.raises(SpecChangeError, match=r"write: history -> upsert(.|\n)*`frazil rebuild lake\.now`"):
        shapes.driver().batch()
    seen: list[Any] = []

    def look(progress: RebuildProgress) -> None:
        seen.append([shapes.stands(table).view.head for table in TABLES])

    receipts = rebuilding(shapes, report=look).perform()

    check_rebuilt(shapes)
    assert seen and seen == [[view.head for view in before.values()]] * len(seen)
    assert [shapes.stands(table).view.uuid for table in TABLES] == [view.uuid for view in before.values()]
    sent, refused = len(SOME) + len(LATE), len(shapes.refused)
    assert receipts[0].group == Counts(sent, sent - refused, dead_letters=refused)
    assert [each.table for each in receipts] == ["lake.log", "lake.now", "lake.history"]
    assert [each.snapshot_id for each in receipts] == [shapes.stands(table).view.head for table in TABLES]
    assert {each.epoch for each in receipts} == {epoch + 1}
    shapes.send(("a", 9, 40, 0), ("c", None, 41, 1), (None, 1, 42, 0))
    shapes.catch_up()
    check_rebuilt(shapes)


@pytest.mark.parametrize(
    ("table", "by"),
    sampled(
        product(["now", "history"], ["materialize", "rebuild", "discard"]),
        keep=[("now", "materialize"), ("history", "rebuild")].__contains__,
    ),
)
def test_the_next_run_completes_a_rebuild_before_anything_is_read(
    shapes: Shapes, table: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_at(shapes, table, monkeypatch)
    assert [str(finding) for each in shapes.verified() for finding in each.findings] == []
    assert any("next run completes it" in str(each.checks) for each in shapes.verified())
    batch = shapes.stands("log").state.itself
    assert [each.lacks_batch for each in statuses(shapes)][-1] == batch
    shapes.send(("a", 9, 40, 0), ("c", None, 41, 1), (None, 1, 42, 0))

    if by == "materialize":
        shapes.catch_up()
    elif by == "rebuild":
        receipts = rebuilding(shapes).perform()
        assert [each.batch_id for each in receipts] == [batch.batch_id] * 3
        assert {shapes.stands(table).state.itself for table in TABLES} == {batch}
    else:
        assert not rebuilding(shapes).discard()
        assert {shapes.stands(table).state.itself for table in TABLES} == {batch}
    shapes.catch_up()

    check_rebuilt(shapes)


def test_a_driver_with_the_former_spec_completes_the_rebuild_and_stops(
    shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_at(shapes, "now", monkeypatch)

    with pytest.raises(SpecChangeError, match=r"lake\.now"):
        shapes.driver(tables=otherwise(shapes)).batch()

    check_rebuilt(shapes)


def test_a_rebuild_may_die_at_any_commit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The commit with number 24 replaces the ledger; the tables that follow it are ready before."""
    deaths = 0
    for number, after in sampled(product(range(32), [False, True]), keep=[(24, False)].__contains__):
        shapes = Shapes.at(tmp_path_factory.mktemp("lake"))
        shapes.send(*SOME)
        shapes.catch_up(shapes.driver(tables=otherwise(shapes)))
        process = rebuilding(shapes)
        with suppress(KilledError), killed_at(shapes, number, after=after):  # type: ignore[arg-type]
            process.perform()
            continue
        deaths += 1
        assert [str(finding) for each in shapes.verified() for finding in each.findings] == []
        if number % 2 or not shapes.stands("log").state.generation:
            rebuilding(shapes).perform()
        shapes.send(*LATE)
        shapes.catch_up()

        check_rebuilt(shapes, shapes.stands("log").state.generation)
    assert deaths


@in_long_runs
def test_files_that_others_rewrite_before_a_table_is_replaced_change_nothing(
    shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_at(shapes, "now", monkeypatch)
    view = shapes.stands("now").view
    shapes.world.lake.rewrite(view, files=[], dropped=[], summary={}, figures={}, tag_prefix=REWRITE_PREFIX)

    shapes.catch_up()

    check_rebuilt(shapes)


def test_a_driver_that_publishes_meanwhile_is_followed(shapes: Shapes) -> None:
    more = [("a", 9, 40, 0), ("c", None, 41, 1), (None, 1, 42, 0)]
    driver = shapes.driver(tables=otherwise(shapes))

    def publish(progress: RebuildProgress) -> None:
        if more:
            shapes.send(more.pop())
            driver.clients = replace(driver.clients, topics=shapes.world.topics)
            shapes.catch_up(driver)

    process = rebuilding(shapes, report=publish)
    process.clients = replace(process.clients, topics=TopicsNow(shapes))  # type: ignore[arg-type]
    process.perform()

    assert not more
    check_rebuilt(shapes)


def test_what_was_built_can_be_dropped(shapes: Shapes) -> None:
    def stop(progress: RebuildProgress) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        rebuilding(shapes, report=stop).perform()
    assert [status.rebuild is not None for status in statuses(shapes)] == [True] * 3

    assert rebuilding(shapes).discard()

    assert not rebuilding(shapes).discard()
    assert [status.rebuild for status in statuses(shapes)] == [None] * 3
    shapes.catch_up(shapes.driver(tables=otherwise(shapes)))


@pytest.mark.parametrize(
    "target", sampled([ToEarliest(), ToOffsets({"orders": {0: 3}})], lambda each: each != ToEarliest())
)
def test_the_last_records_are_read_again(tmp_path: Path, target: ToEarliest | ToOffsets) -> None:
    shapes = Shapes.at(tmp_path)
    for batch in (SOME, LATE):
        shapes.send(*batch)
        shapes.catch_up()
    rewrite_by_others(shapes, "log")

    receipts = rebuilding(shapes, target=target, drop_foreign=True).perform()

    check_rebuilt(shapes)
    read_again = [sum(each.end - each.start for each in receipt.ranges) for receipt in receipts]
    assert len({*read_again}) == 1 and read_again[0] > 0
    shapes.send(("a", 9, 40, 0), ("c", None, 41, 1))
    shapes.catch_up()
    check_rebuilt(shapes)


def test_shapes_with_added_partitions_have_the_same_order_again(tmp_path: Path) -> None:
    shapes = GrowingShapes.at(tmp_path)
    assert isinstance(shapes, GrowingShapes)
    shapes.send_at(("a", 1, 5, 0), ("b", 1, 6, 0), ("c", 1, 6, 0))
    shapes.catch_up_and_settle()
    shapes.grow()
    shapes.send_at(("a", 2, 4, 0), ("c", None, 7, 0), ("b", 2, 7, 1), ("c", 2, 6, 1), ("b", 3, 8, 0))
    shapes.catch_up_and_settle()
    rows, versions, notes = shapes.now.records(), shapes.history.stored(), shapes.notes()

    rebuilding(shapes).perform()

    assert (shapes.now.records(), shapes.history.stored(), shapes.notes()) == (rows, versions, notes)
    shapes.check()
    shapes.send_at(("b", None, 9, 0), ("b", 3, 8, 1), ("a", None, 3, 1))
    shapes.catch_up_and_settle()
    shapes.check()


def test_shapes_without_records_are_rebuilt(tmp_path: Path) -> None:
    shapes = Shapes.at(tmp_path)
    shapes.catch_up()

    rebuilding(shapes).perform()

    check_rebuilt(shapes)
    shapes.send(*SOME)
    shapes.catch_up()
    check_rebuilt(shapes)


@in_long_runs
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from("abc") | st.none(),
                st.integers(0, 9) | st.none() | st.just("no JSON"),
                st.integers(1, 12),
                st.integers(0, 1),
            ),
            min_size=1,
            max_size=7,
        ),
        min_size=2,
        max_size=4,
    ),
    until=st.integers(0, 7),
)
def test_any_records_are_the_model_after_a_rewind_and_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Sent]], until: int
) -> None:
    shapes = Shapes.at(tmp_path_factory.mktemp("lake"))
    for batch in batches:
        shapes.send(*batch)
        shapes.catch_up()
    done = 0
    offsets = {number: min(until, len(there)) for number, there in shapes.world.records.items()}
    with suppress(RebuildError, Misuse):  # there is no batch before these offsets, or nothing behind them
        rebuilding(shapes, target=ToOffsets({"orders": offsets})).perform()
        done += 1
    shapes.send(*batches[0])
    shapes.catch_up()
    check_rebuilt(shapes, done)

    rebuilding(shapes).perform()

    check_rebuilt(shapes, done + 1)
