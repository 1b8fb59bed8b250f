"""Transformations of a table: each row of the followed table is read once, whatever happens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.cli import transform
from frazil.materialize.scheduling.schedule import Stopping
from frazil.model.changes import AddColumn, DropColumn, RenameColumn
from frazil.model.columns import Column, Scalar
from frazil.model.errors import (
    CatalogError,
    CommitRejectedError,
    CommitUnknownError,
    DefectError,
    FrazilError,
    TransformHaltedError,
)
from frazil.model.settings import CatalogSettings
from frazil.model.transforms import Position, transform_state
from frazil.transforms import schedule
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.schedule import run_beside, run_every
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import combined, examples, sampled
from tests.table.transformed_orders import COLUMNS, ORDERS, SQL, Orders, by_id, order, spec_of


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def expected(orders: Orders, sql: str = SQL) -> list[dict[str, object]]:
    """What the query gives over all rows, by another engine."""
    kinds = pa.schema([("id", pa.int64()), ("symbol", pa.string()), ("n", pa.int32())])
    with duckdb.connect() as database:
        database.register("orders", pa.Table.from_pylist(orders.rows, kinds))
        return by_id(database.sql(sql).to_arrow_table().to_pylist())


def test_a_batch_has_what_was_added_since_the_last_one(orders: Orders) -> None:
    orders.add(1, 2, 3)
    orders.add(4, 5)
    made = orders.transformation(spec_of())

    first = made.batch()
    head = orders.add(6, 7, 11)
    second = made.batch()

    assert first is not None and second is not None
    assert (first.read, second.read) == (5, 3)
    assert second.state.position == Position(ORDERS, orders.view().uuid, 3, head)
    assert by_id(orders.rows_of()) == expected(orders)
    assert made.batch() is None


def test_the_position_is_in_the_snapshot_that_has_the_rows(orders: Orders) -> None:
    orders.add(1, 2)
    done = orders.transformation(spec_of()).batch()

    assert done is not None
    head = orders.view("lake.made").head_snapshot()
    assert head is not None
    assert (head.id, transform_state(head)) == (done.snapshot_id, done.state)
    assert orders.view().tags["frazil_transform_lake.made"] == orders.view().head


def test_transformations_of_one_name_in_two_projects_keep_their_own_snapshots(orders: Orders) -> None:
    orders.make("lake.users", (Column("name", Scalar("string")),))
    spec = spec_of(joins=("lake.users",))
    here, there = orders.transformation(spec), orders.transformation(replace(spec, database="other"))
    orders.add(1)
    there.batch()
    before = {tag for view in (orders.view(), orders.view("lake.users")) for tag in view.tags}
    head = orders.view().head

    orders.add(2)
    orders.put([{"name": "u"}], "lake.users")
    here.batch()

    assert orders.view().tags[there.spec.tag] == head
    assert before <= {*orders.view().tags, *orders.view("lake.users").tags}


def test_an_epoch_without_rows_only_moves_the_position(orders: Orders) -> None:
    orders.add(1)
    made = orders.transformation(spec_of())
    made.batch()
    head = orders.add()

    done = orders.transformation(spec_of(), queries=lambda: pytest.fail("Spark is started for nothing")).batch()

    assert done is not None and done.state.position is not None
    assert (done.read, done.state.position.snapshot_id) == (0, head)


def test_renamed_and_added_columns_are_read_as_the_table_has_them(orders: Orders) -> None:
    orders.add(1, 2)
    made = orders.transformation(spec_of("SELECT * FROM orders"))
    made.batch()
    orders.lake.change_schema(orders.view(), [AddColumn("more", Scalar("string"))], {})
    orders.put([{"id": 3, "symbol": "s", "n": 1, "more": "m"}])
    made.batch()

    assert [row["more"] for row in by_id(orders.rows_of())] == [None, None, "m"]
    renamed = orders.transformation(spec_of("SELECT id, kind FROM orders", name="again"))
    orders.lake.change_schema(orders.view(), [RenameColumn("symbol", "kind")], {})
    renamed.batch()
    assert [row["kind"] for row in by_id(orders.rows_of("lake.again"))] == ["s1", "s2", "s"]


def renamed(orders: Orders) -> None:
    orders.lake.change_schema(orders.view(), [RenameColumn("symbol", "kind")], {})
    orders.put([{"id": 3, "kind": "s", "n": 1}])


def dropped(orders: Orders) -> None:
    orders.lake.change_schema(orders.view(), [DropColumn("symbol")], {})
    orders.put([{"id": 3, "n": 1}])


@pytest.mark.parametrize("change", [renamed, dropped])
def test_a_query_that_loses_a_column_halts_until_it_is_rebuilt(
    orders: Orders, change: Callable[[Orders], None]
) -> None:
    orders.add(1, 2)
    every = spec_of("SELECT * FROM orders")
    orders.transformation(every).batch()
    before = orders.rows_of()
    change(orders)

    with pytest.raises(TransformHaltedError, match="the query does not give symbol any more"):
        orders.transformation(every).batch()
    assert orders.rows_of() == before

    Rebuild(orders.transformation(every), RebuildLake(orders.lake, ["lake.made"])).perform()
    assert by_id(orders.rows_of()) == by_id(orders.rows_of(ORDERS))


def test_a_joined_table_is_read_at_its_newest_snapshot_which_is_recorded(orders: Orders) -> None:
    orders.make("lake.symbols", (Column("symbol", Scalar("string")), Column("title", Scalar("string"))))
    orders.add(1)
    sql = "SELECT id, title FROM orders LEFT JOIN symbols USING (symbol)"
    made = orders.transformation(spec_of(sql, joins=("lake.symbols",)))
    made.batch()
    head = orders.put([{"symbol": "s2", "title": "two"}], "lake.symbols")
    orders.add(2)
    done = made.batch()

    assert done is not None
    assert done.state.joined == {"lake.symbols": head}
    assert by_id(orders.rows_of()) == [{"id": 1, "title": None}, {"id": 2, "title": "two"}]


def roll_back(orders: Orders) -> None:
    table = orders.lake.catalog.load_table(ORDERS)
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(table.metadata.snapshots[1].snapshot_id)


def make_again(orders: Orders) -> None:
    orders.lake.catalog.drop_table(ORDERS)
    orders.make()
    orders.add(1)


def delete_without_a_batch(orders: Orders) -> None:
    orders.lake.catalog.load_table(ORDERS).delete("id = 2")


def delete_rows(orders: Orders) -> None:
    delete_without_a_batch(orders)
    orders.add(9)


def append_rows(orders: Orders) -> None:
    table = orders.lake.catalog.load_table(ORDERS)
    table.append(pa.table({"id": pa.array([8], pa.int64())}))


def change_the_target(orders: Orders) -> None:
    orders.lake.catalog.load_table("lake.made").delete("id = 2")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (roll_back, "was rolled back or rebuilt"),
        (make_again, "is another table now"),
        (delete_rows, "was changed by others since"),
        (append_rows, "was changed by others since"),
        (change_the_target, "others changed the table of the transformation made"),
    ],
)
def test_what_cannot_be_continued_halts_and_names_the_way_out(
    orders: Orders, change: Callable[[Orders], None], why: str
) -> None:
    orders.add(1, 2)
    orders.add(4)
    orders.transformation(spec_of()).batch()
    before = orders.rows_of()
    change(orders)

    with pytest.raises(TransformHaltedError, match=why) as halted:
        orders.transformation(spec_of()).batch()

    assert "frazil transform rebuild made" in halted.value.hint
    assert len(orders.rows_of()) <= len(before)


def test_a_changed_query_halts(orders: Orders) -> None:
    orders.add(1)
    orders.transformation(spec_of()).batch()

    with pytest.raises(TransformHaltedError, match="has changed since the table was filled"):
        orders.transformation(spec_of("SELECT id FROM orders")).batch()


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:1]], ids=["same columns", "other columns"])
def test_a_table_of_others_is_left_alone(orders: Orders, columns: tuple[Column, ...]) -> None:
    orders.add(1)
    orders.make("lake.made", columns)

    with pytest.raises(TransformHaltedError, match="no transformation wrote it"):
        orders.transformation(spec_of()).batch()


def disturbed_run(orders: Orders, act: str, number: int) -> None:
    """Run a batch in a process of its own, in which something happens to one commit."""
    settings = CatalogSettings("jdbc", str(orders.folder))
    kept, orders.lake = orders.lake, WatchedLake(settings, around=disturbed(act, number))
    with suppress(DiedError, FrazilError):
        orders.transformation(spec_of()).batch()
    orders.lake = kept


@pytest.mark.parametrize(("act", "number"), combined(ACTS, sampled(range(1, 8), lambda n: n in (4, 5))))
def test_rows_are_there_once_whatever_happens_to_a_commit(orders: Orders, act: str, number: int) -> None:
    orders.add(1, 2)
    disturbed_run(orders, act, number)
    orders.add(4, 5)
    disturbed_run(orders, act, max(number - 2, 1))
    orders.add(6)

    orders.transformation(spec_of()).batch()

    assert by_id(orders.rows_of()) == expected(orders)


@pytest.mark.parametrize("seed", range(examples(2, 60)))
def test_the_table_is_the_query_over_all_rows_after_any_history(orders: Orders, seed: int) -> None:
    chance, number = random.Random(seed), 0
    for _ in range(chance.randrange(3, 8)):
        for _ in range(chance.randrange(3)):
            count = chance.randrange(6)
            orders.add(*range(number, number + count))
            number += count
        disturbed_run(orders, chance.choice(ACTS), chance.randrange(1, 7))

    orders.transformation(spec_of()).batch()

    assert by_id(orders.rows_of()) == expected(orders)


def test_a_second_process_reads_nothing_twice(orders: Orders) -> None:
    orders.add(1, 2)
    one, other = orders.transformation(spec_of()), orders.transformation(spec_of())
    one.batch()
    orders.add(4)
    plain = orders.lake.stage

    def stage(*args: object, **named: object) -> int:
        orders.lake.stage = plain  # type: ignore[method-assign]
        other.batch()
        return plain(*args, **named)  # type: ignore[arg-type]

    orders.lake.stage = stage  # type: ignore[method-assign]

    assert one.batch() is None
    assert by_id(orders.rows_of()) == expected(orders)


def test_a_catalog_that_does_not_answer_is_an_error_that_can_be_tried_again(orders: Orders) -> None:
    orders.add(1)
    orders.transformation(spec_of()).batch()
    orders.add(2)

    def silent(*args: object, **named: object) -> None:
        raise CommitUnknownError("no answer")

    plain, orders.lake.publish = orders.lake.publish, silent  # type: ignore[method-assign]
    with pytest.raises(FrazilError, match="could not publish"):
        orders.transformation(spec_of()).batch()
    orders.lake.publish = plain  # type: ignore[method-assign]
    orders.transformation(spec_of()).batch()

    assert by_id(orders.rows_of()) == expected(orders)


def rebuild(orders: Orders, sql: str) -> int:
    made = orders.transformation(spec_of(sql, partition_by=("symbol",)))
    return Rebuild(made, RebuildLake(orders.lake, ["lake.made"])).perform().snapshot_id


OTHER_SQL = "SELECT id, symbol, n * 2 AS twice FROM orders"


@pytest.mark.parametrize("change", [roll_back, make_again, change_the_target])
def test_a_rebuild_computes_all_rows_by_the_present_query(orders: Orders, change: Callable[[Orders], None]) -> None:
    orders.add(1, 2)
    orders.add(4)
    orders.transformation(spec_of()).batch()
    change(orders)
    orders.rows = orders.rows_of(ORDERS)
    snapshots = len(orders.view("lake.made").snapshots)

    rebuild(orders, OTHER_SQL)
    orders.add(5)
    orders.transformation(spec_of(OTHER_SQL)).batch()

    assert by_id(orders.rows_of()) == expected(orders, OTHER_SQL)
    made = orders.view("lake.made")
    assert (made.partition_fields, [*made.branches]) == (("symbol",), ["main"])
    assert [column.name for column in made.columns] == ["id", "symbol", "twice"]
    assert len(made.snapshots) > snapshots, "readers of older snapshots keep them"


@pytest.mark.parametrize("change", [append_rows, delete_without_a_batch])
def test_a_rebuild_has_read_what_others_changed_last(orders: Orders, change: Callable[[Orders], None]) -> None:
    orders.add(1, 2)
    orders.transformation(spec_of()).batch()
    change(orders)
    orders.rows = orders.rows_of(ORDERS)
    rebuild(orders, OTHER_SQL)

    assert orders.transformation(spec_of(OTHER_SQL)).batch() is None
    orders.add(5)
    orders.transformation(spec_of(OTHER_SQL)).batch()

    assert by_id(orders.rows_of()) == expected(orders, OTHER_SQL)


def test_a_rebuild_leaves_a_table_of_others_alone(orders: Orders) -> None:
    orders.add(1)
    orders.make("lake.made")

    with pytest.raises(TransformHaltedError, match="no transformation wrote it"):
        rebuild(orders, SQL)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("number", sampled(range(1, 8), lambda n: n == 5))
def test_an_interrupted_rebuild_shows_all_of_the_old_rows_or_all_of_the_new_ones(
    orders: Orders, act: str, number: int
) -> None:
    orders.add(1, 2)
    orders.transformation(spec_of()).batch()
    old, new = expected(orders), expected(orders, OTHER_SQL)
    kept = orders.lake
    orders.lake = WatchedLake(CatalogSettings("jdbc", str(orders.folder)), around=disturbed(act, number))
    with suppress(DiedError, FrazilError):
        rebuild(orders, OTHER_SQL)
    orders.lake = kept
    seen = by_id(orders.rows_of())

    rebuild(orders, OTHER_SQL)

    assert seen in (old, new)
    assert by_id(orders.rows_of()) == new


def has_rows(orders: Orders, identifier: str = "lake.made") -> bool:
    view = orders.lake.load(identifier)
    head = None if view is None else view.head_snapshot()
    return head is not None and head.live_rows > 0


def test_transformations_beside_a_run_follow_until_it_stops(orders: Orders) -> None:
    orders.add(1, 2)
    made, stopping = orders.transformation(spec_of()), Stopping()
    halted = orders.transformation(spec_of(name="other"))
    halted.batch()
    halted.spec = spec_of("SELECT id FROM orders", name="other")

    broken = orders.transformation(spec_of(name="broken"), queries=lambda: 1 // 0)  # type: ignore[arg-type, return-value]

    with transform.beside([broken, halted, made], timedelta(milliseconds=10), stopping) as reports:
        while not has_rows(orders):
            time.sleep(0.01)

    assert stopping.asked
    defect, *reports = reports
    assert isinstance(defect.failure, DefectError)
    assert [(each.name, each.batches, each.rows) for each in reports] == [("other", 0, 0), ("made", 1, 2)]
    assert [type(each.failure) for each in reports] == [TransformHaltedError, type(None)]
    assert by_id(orders.rows_of()) == expected(orders)


def test_a_table_that_is_not_there_yet_is_waited_for(orders: Orders, caplog: pytest.LogCaptureFixture) -> None:
    late = orders.transformation(spec_of("SELECT id FROM late", source="lake.late"))
    stopping = Stopping()

    with transform.beside([late], timedelta(milliseconds=200), stopping) as reports:
        time.sleep(0.3)
        orders.make("lake.late")
        put_despite_other_commits(orders, "lake.late")
        while not has_rows(orders):
            time.sleep(0.01)

    assert [(each.rows, each.failure) for each in reports] == [(1, None)]
    assert "table_failed" not in [each.message for each in caplog.records]


def put_despite_other_commits(orders: Orders, identifier: str) -> None:
    """The transformation marks the snapshot that it reads from, in between."""
    for _ in range(100):
        with suppress(CommitRejectedError):
            orders.put([order(1)], identifier)
            return
    raise AssertionError("other commits came first 100 times")


def test_a_transformation_that_halted_is_looked_at_again_later(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.add(1)
    made, stopping = orders.transformation(spec_of()), Stopping()
    made.batch()
    made.spec = spec_of("SELECT id FROM orders")
    pauses: list[float] = []

    def sleep(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 20:
            made.spec = spec_of()
            orders.add(2)
        return False

    monkeypatch.setattr(schedule, "FAILING_SECONDS", 0.05)
    monkeypatch.setattr(stopping, "sleep", sleep)
    (report,) = run_beside([made], 0, stopping, lambda _: stopping.stop())

    assert (report.batches, report.rows, report.failure) == (1, 1, None)


def test_a_run_ends_once_no_transformation_can_continue(orders: Orders) -> None:
    orders.add(1)
    halted = orders.transformation(spec_of())
    halted.batch()
    halted.spec = spec_of("SELECT id FROM orders")

    (report,) = run_every([halted], 3600, Stopping(), lambda _: None)

    assert isinstance(report.failure, TransformHaltedError)


def test_a_service_that_does_not_answer_is_asked_again_at_the_next_look(orders: Orders) -> None:
    orders.add(1)
    made, stopping = orders.transformation(spec_of()), Stopping()
    plain, looks = orders.lake.load, count()

    def load(identifier: str) -> object:
        if next(looks) < 2:
            raise CatalogError("silent", hint="wait")
        return plain(identifier)

    orders.lake.load = load  # type: ignore[method-assign, assignment]
    (report,) = run_every([made], 0, stopping, lambda _: stopping.stop())

    assert (report.batches, report.failure) == (1, None)
