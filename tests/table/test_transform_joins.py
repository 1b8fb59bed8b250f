"""Joined tables: each row meets the snapshot of its batch, also if all rows are computed again."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.adapters.spark.sql.types import arrow_schema
from frazil.model import join_history
from frazil.model.columns import Column, Scalar
from frazil.model.errors import FrazilError, TransformHaltedError
from frazil.model.settings import CatalogSettings
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.run import Transformation
from frazil.transforms.verify import verify
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import combined, examples, sampled
from tests.table.transformed_orders import ORDERS, Orders, by_id, compact, spec_of

SYMBOLS = "lake.symbols"
TITLED = (Column("symbol", Scalar("string")), Column("title", Scalar("string")))
SQL = "SELECT id, title FROM orders LEFT JOIN symbols USING (symbol)"
SPEC = spec_of(SQL, joins=(SYMBOLS,))


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    made = Orders(tmp_path)
    made.make(SYMBOLS, TITLED)
    return made


def title(orders: Orders, symbol: str, name: str) -> int:
    """Put a title in the place of that of a symbol."""
    if orders.rows_of(SYMBOLS):
        orders.lake.catalog.load_table(SYMBOLS).delete(f"symbol = '{symbol}'")
    return orders.put([{"symbol": symbol, "title": name}], SYMBOLS)


def batches(orders: Orders, made: Transformation) -> list[dict[str, object]]:
    """Run three batches, between which a title changes; return the rows."""
    for number, name in ((1, "one"), (6, "two"), (11, "three")):
        title(orders, "s1", name)
        orders.add(number)
        made.batch()
    return by_id(orders.rows_of())


def rebuilt(orders: Orders, made: Transformation, *, newest_joins: bool = False) -> list[dict[str, object]]:
    Rebuild(made, RebuildLake(orders.lake, ["lake.made"]), newest_joins).perform()
    return by_id(orders.rows_of())


def test_a_rebuild_gives_the_rows_that_the_batches_gave(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    rows = batches(orders, made)
    title(orders, "s1", "four")
    compact(orders)
    orders.add(16)

    found = rebuilt(orders, made)

    assert [row["title"] for row in rows] == ["one", "two", None]
    assert found == [*rows, {"id": 16, "title": "four"}]
    orders.add(21)
    title(orders, "s1", "five")
    made.batch()
    assert rebuilt(orders, made) == [*found, {"id": 21, "title": "five"}]
    assert verify(made).clean


def test_verify_computes_each_batch_with_the_snapshots_that_it_met(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    batches(orders, made)
    title(orders, "s1", "four")

    assert verify(made).clean
    assert [row["title"] for row in rebuilt(orders, made, newest_joins=True)] == ["four", "four", None]
    assert verify(made).clean


def test_a_joined_table_without_a_snapshot_has_no_rows(orders: Orders) -> None:
    """As `CREATE TABLE` of another engine makes it. Rows that met it empty stay so when it has got rows."""
    orders.lake.catalog.drop_table(SYMBOLS)
    orders.lake.catalog.create_table(SYMBOLS, arrow_schema([*TITLED]))
    made = orders.transformation(SPEC)
    orders.add(1)
    assert by_id(orders.rows_of() if made.batch() else []) == [{"id": 1, "title": None}]

    orders.add(6)
    made.batch()
    orders.lake.catalog.load_table(SYMBOLS).append(pa.table({"symbol": ["s1"], "title": ["one"]}))
    orders.add(11)
    made.batch()
    orders.add(16)
    made.batch()

    rows = by_id(orders.rows_of())
    assert [row["title"] for row in rows] == [None, None, None, "one"]
    assert verify(made).clean
    assert rebuilt(orders, made) == rows
    assert [row["title"] for row in rebuilt(orders, made, newest_joins=True)] == ["one", "one", None, "one"]


def test_snapshots_that_batches_met_outlive_an_expiry(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    rows = batches(orders, made)
    title(orders, "s1", "four")
    for identifier in (SYMBOLS, ORDERS):
        expire_untagged(orders, identifier)

    assert verify(made).clean
    assert rebuilt(orders, made) == rows


def expire_untagged(orders: Orders, identifier: str) -> None:
    view = orders.view(identifier)
    kept = {*view.tags.values(), *view.branches.values()}
    table = orders.lake.catalog.load_table(identifier)
    table.maintenance.expire_snapshots().by_ids([each for each in view.snapshots if each not in kept]).commit()


def test_a_snapshot_that_is_gone_is_named_with_the_way_out(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    batches(orders, made)
    first = min(orders.view(SYMBOLS).tags.items(), key=lambda tag: orders.view(SYMBOLS).snapshots[tag[1]].committed_at)
    orders.lake.move_tags(orders.view(SYMBOLS), put={}, drop=[first[0]])
    expire_untagged(orders, SYMBOLS)

    for act in (lambda: verify(made), lambda: rebuilt(orders, made)):
        with pytest.raises(
            TransformHaltedError, match=f"the snapshot {first[1]} of {SYMBOLS}, which the epochs"
        ) as gone:
            act()
        assert "--newest-joins" in gone.value.hint
    assert len(rebuilt(orders, made, newest_joins=True)) == 3


def test_the_oldest_snapshots_are_forgotten_and_their_tags_dropped(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_history, "KEPT", 2)
    made = orders.transformation(SPEC)
    batches(orders, made)
    title(orders, "s1", "four")
    orders.add(16)
    made.batch()

    ours = [tag for tag in orders.view(SYMBOLS).tags if tag.startswith(join_history.JOINED_TAG)]
    assert len(ours) == 2
    with pytest.raises(TransformHaltedError, match="those of the rows up to epoch 4 are not recorded any more"):
        verify(made)


def test_a_joined_table_that_is_compacted_is_still_the_one_that_was_met(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    title(orders, "s1", "one")
    orders.add(1)
    first = made.batch()
    compact(orders, SYMBOLS)
    orders.add(6)
    second = made.batch()

    assert first is not None and second is not None
    assert first.state.joined == second.state.joined


def test_a_table_that_is_no_longer_joined_keeps_no_snapshots(orders: Orders) -> None:
    made = orders.transformation(SPEC)
    batches(orders, made)
    alone = orders.transformation(spec_of("SELECT id FROM orders"))
    rebuilt(orders, alone)

    for identifier in (SYMBOLS, ORDERS):
        assert not [tag for tag in orders.view(identifier).tags if tag.startswith(join_history.JOINED_TAG)]


@pytest.mark.parametrize(("act", "number"), combined(ACTS, sampled(range(1, 11), lambda n: n in (3, 6))))
def test_rows_meet_one_snapshot_whatever_happens_to_a_commit(orders: Orders, act: str, number: int) -> None:
    chance = random.Random(number)
    for step in range(examples(3, 6)):
        title(orders, "s1", f"title {step}")
        orders.add(5 * step + 1, 5 * step + 2)
        settings = CatalogSettings("jdbc", str(orders.folder))
        kept, orders.lake = orders.lake, WatchedLake(settings, around=disturbed(act, chance.randrange(1, number + 1)))
        with suppress(DiedError, FrazilError):
            orders.transformation(SPEC).batch()
        orders.lake = kept
    made = orders.transformation(SPEC)
    made.batch()

    rows = by_id(orders.rows_of())
    assert [row["id"] for row in rows] == sorted(row["id"] for row in orders.rows)
    assert verify(made).clean
    assert rebuilt(orders, made) == rows
