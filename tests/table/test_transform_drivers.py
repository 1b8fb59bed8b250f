"""Two drivers of one transformation: what one publishes while the other is at work is there once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.changes import AddColumn
from frazil.model.columns import Scalar
from frazil.model.expiry import Expiry
from frazil.model.outputs import OutputSpec
from frazil.model.queries import VIEW, Attribute, Expression, Operator
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec
from frazil.ports import Lake
from frazil.transforms import commit, in_spark
from frazil.transforms.in_spark import SparkQueries
from frazil.transforms.queries import Queries, Query
from frazil.transforms.run import Transformation
from frazil.transforms.send import TransformSending
from frazil.transforms.tables import changes_between
from tests.table.transformed_orders import DuckQueries, Orders, by_id, compact, spec_of

ALL = spec_of("SELECT * FROM orders")


@dataclass(slots=True)
class Meanwhile:
    """Queries of a driver; while it checks the first one, another driver runs a batch."""

    queries: DuckQueries
    other: Transformation
    calls: list[str] = field(default_factory=list)

    def check(self, *given: Any) -> Query:
        if not self.calls:
            self.calls.append("other")
            assert self.other.batch() is not None
        return self.queries.check(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queries, name)


@dataclass(slots=True)
class Outdated:
    """A lake that shows one table as it was."""

    lake: IcebergLake
    view: TableView

    def load(self, identifier: str) -> TableView | None:
        return self.view if identifier == self.view.identifier else self.lake.load(identifier)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lake, name)


@dataclass(slots=True)
class Interrupted:
    """A lake; right after a process has loaded its first table, another driver runs a batch."""

    lake: IcebergLake
    act: Callable[[], object]
    done: bool = False

    def load(self, identifier: str) -> TableView | None:
        found = self.lake.load(identifier)
        if not self.done:
            self.done = True
            self.act()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lake, name)


def driver(orders: Orders, spec: TransformSpec, other: Transformation) -> Transformation:
    queries = Meanwhile(DuckQueries(orders.lake), other)
    return orders.transformation(spec, lambda: cast(Queries, queries))


def test_a_table_that_another_driver_has_made_and_filled_is_continued(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)

    done = driver(orders, ALL, orders.transformation(ALL)).batch()

    assert done is None
    assert by_id(orders.rows_of()) == by_id(orders.rows)


def test_a_batch_that_another_driver_publishes_between_two_loads_is_no_reason_to_halt(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)
    orders.transformation(ALL).batch()

    def act() -> None:
        orders.add(3)
        orders.transformation(ALL).batch()

    made = orders.transformation(ALL)
    made.lake = cast(Lake, Interrupted(orders.lake, act))

    assert made.batch() is None
    assert by_id(orders.rows_of()) == by_id(orders.rows)


def test_a_batch_is_planned_again_if_another_was_published_while_the_table_recorded_an_output(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)
    orders.transformation(ALL).batch()
    orders.add(3, 4)
    sends = replace(ALL, outputs=(OutputSpec("made.out", "made.out"),))
    made = driver(orders, sends, orders.transformation(ALL))
    made.sending = TransformSending(sends, lambda: pytest.fail("nothing is sent"))

    assert made.batch() is None

    assert by_id(orders.rows_of()) == by_id(orders.rows)


def test_a_batch_is_planned_again_if_another_was_published_before_its_columns_were_added(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)
    orders.transformation(ALL).batch()
    orders.add(3, 4)
    earlier, before = orders.transformation(ALL), orders.view()
    earlier.lake = cast(Lake, Outdated(orders.lake, before))
    orders.lake.change_schema(before, [AddColumn("more", Scalar("string"))], {})

    assert driver(orders, ALL, earlier).batch() is None

    assert by_id(orders.rows_of()) == [row | {"more": None} for row in by_id(orders.rows)]


def test_a_batch_whose_files_clean_up_may_have_deleted_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, ages = Orders(tmp_path), iter([True, False])
    orders.add(1, 2)
    monkeypatch.setattr(commit, "is_old", lambda began: next(ages))

    assert orders.transformation(ALL).batch() is not None

    assert next(ages, None) is None
    assert by_id(orders.rows_of()) == by_id(orders.rows)
    assert list(orders.view("lake.made").branches) == ["main"]


def test_a_batch_is_planned_again_if_the_snapshot_that_it_began_at_has_expired(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)
    other = orders.transformation(ALL)
    other.batch()
    gone = orders.view("lake.made").head
    assert gone is not None
    orders.add(3)
    made = driver(orders, ALL, other)
    expiry = Expiry((gone,), {}, ())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Transformation, "keep_joined", lambda *_: orders.lake.expire(orders.view("lake.made"), expiry))
        assert made.batch() is None

    assert by_id(orders.rows_of()) == by_id(orders.rows)


def test_the_rows_of_rewritten_files_count_where_keys_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path)
    orders.add(1, 2)
    orders.add(3, 4)
    before = orders.view()
    compact(orders)
    changes = changes_between(orders.lake, orders.view(), before.head or 0, orders.view().head or 0)
    symbol = Attribute(1, "symbol", "string")
    view, key = Operator(VIEW, (symbol,), name="orders"), Expression("AttributeReference", "symbol#1", id=1)
    query = Query((), Operator("Aggregate", (symbol,), (view,), (key, key), groups=1), {})
    monkeypatch.setattr(in_spark, "LOOKED_UP_ROWS", 7)
    queries = SparkQueries(cast(Any, None), orders.lake)

    assert queries._keys_among(query, [changes.added]).keys() == {"symbol"}
    assert queries._keys_among(query, [changes.added, changes.removed]) == {}
