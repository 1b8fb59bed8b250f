"""A rebuild of a transformation beside a driver, or beside another rebuild: each row is there once; both continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize import batch_age
from frazil.model.errors import CommitRejectedError, ContendedError, TransformHaltedError
from frazil.model.settings import CatalogSettings
from frazil.model.transforms import TransformSpec
from frazil.transforms import function
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.tables import all_rows
from tests.fakes.watched_lake import Around, Commit, WatchedLake
from tests.sampling import combined, sampled
from tests.table.transformed_orders import DuckQueries, Orders, spec_of

ROWS = spec_of()
GROUPS = spec_of("SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol")
OTHER = spec_of("SELECT id, symbol, n * 2 AS twice FROM orders", partition_by=("symbol",))
OF_A_REBUILD = 5
"""Its commits: the tag on the followed table, and in its own: begin, stage, publish on a branch, replace."""


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    made = Orders(tmp_path)
    made.add(1, 2)
    return made


def batch(orders: Orders, spec: TransformSpec) -> None:
    orders.transformation(spec).batch()


def rebuild(orders: Orders, spec: TransformSpec) -> None:
    Rebuild(orders.transformation(spec), RebuildLake(orders.lake, ["lake.made"])).perform()


@contextmanager
def process(orders: Orders, lake: IcebergLake) -> Iterator[None]:
    """Let what follows be another process with this lake."""
    before, orders.lake = orders.lake, lake
    try:
        yield
    finally:
        orders.lake = before


def at_commit(orders: Orders, number: int, act: Callable[[], None]) -> Around:
    """Return what lets another process act right before the commit of this number, from 1."""
    left = number

    def around(name: str, commit: Commit) -> object:
        nonlocal left
        del name
        left -= 1
        if not left:
            with process(orders, IcebergLake(CatalogSettings("jdbc", str(orders.folder)))):
                act()
        return commit()

    return around


def watched(orders: Orders, around: Around) -> WatchedLake:
    return WatchedLake(CatalogSettings("jdbc", str(orders.folder)), around=around)


def is_query(orders: Orders, spec: TransformSpec) -> bool:
    """Return whether the table is what the query gives over all rows of the followed table."""
    rows = DuckQueries(orders.lake).run(spec, [all_rows(orders.lake, orders.view())])
    return sorted(map(repr, orders.rows_of())) == sorted(map(repr, rows.to_pylist()))


def goes_on(orders: Orders, spec: TransformSpec) -> bool:
    """Return whether the next batches have each row once."""
    batch(orders, spec)
    then = is_query(orders, spec)
    orders.add(6)
    batch(orders, spec)
    return then and is_query(orders, spec) and [*orders.view("lake.made").branches] == ["main"]


@pytest.mark.parametrize(
    ("spec", "number"), combined([ROWS, GROUPS], sampled(range(1, OF_A_REBUILD + 1), lambda n: n in (3, 5)))
)
def test_a_batch_that_a_driver_publishes_during_a_rebuild_counts_once(
    orders: Orders, spec: TransformSpec, number: int
) -> None:
    batch(orders, spec)
    orders.add(3)
    seen = []

    def driver() -> None:
        orders.add(4, 5)
        batch(orders, spec)
        seen.append(is_query(orders, spec))

    with process(orders, watched(orders, at_commit(orders, number, driver))):
        rebuild(orders, spec)

    assert seen == [True]
    assert goes_on(orders, spec)


@pytest.mark.parametrize("spec", [ROWS, GROUPS], ids=["rows", "groups"])
@pytest.mark.parametrize("number", sampled((1, 2, 3), lambda n: n == 2))
def test_a_rebuild_during_a_batch_lets_the_driver_go_on(orders: Orders, spec: TransformSpec, number: int) -> None:
    batch(orders, spec)
    orders.add(3, 4)

    with process(orders, watched(orders, at_commit(orders, number, lambda: rebuild(orders, spec)))):
        batch(orders, spec)

    assert goes_on(orders, spec)


def test_a_driver_with_the_query_of_before_publishes_nothing_and_says_what_to_do(orders: Orders) -> None:
    batch(orders, ROWS)
    orders.add(3, 4)

    with (
        process(orders, watched(orders, at_commit(orders, 2, lambda: rebuild(orders, OTHER)))),
        pytest.raises(TransformHaltedError) as halted,
    ):
        batch(orders, ROWS)

    assert "restart" in str(halted.value.hint)
    assert is_query(orders, OTHER)
    assert goes_on(orders, OTHER)


@pytest.mark.parametrize(
    ("spec", "number"), combined([ROWS, OTHER], sampled(range(1, OF_A_REBUILD + 1), lambda n: n in (2, 4)))
)
def test_of_two_rebuilds_the_table_is_one(orders: Orders, spec: TransformSpec, number: int) -> None:
    batch(orders, ROWS)
    orders.add(3, 4)
    lasts = [spec]

    with (
        process(orders, watched(orders, at_commit(orders, number, lambda: rebuild(orders, spec)))),
        suppress(ContendedError),
    ):
        rebuild(orders, ROWS)
        lasts.append(ROWS)

    assert lasts == ([spec] if number > 2 else [spec, ROWS]), "one that has begun loses to another one"
    assert is_query(orders, lasts[-1])
    assert goes_on(orders, lasts[-1])


@pytest.mark.parametrize("number", sampled(range(3, OF_A_REBUILD + 1), lambda n: n == 5))
def test_a_rebuild_that_another_one_began_over_changes_nothing(orders: Orders, number: int) -> None:
    batch(orders, ROWS)
    orders.add(3)
    before = orders.rows_of()
    lake = RebuildLake(IcebergLake(CatalogSettings("jdbc", str(orders.folder))), ["lake.made"])

    def begin() -> None:
        begun = orders.transformation(OTHER)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Rebuild, "_replaced", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with suppress(KeyboardInterrupt):
                Rebuild(begun, lake).perform()

    with (
        process(orders, watched(orders, at_commit(orders, number, begin))),
        pytest.raises(ContendedError, match="another process has begun a rebuild"),
    ):
        rebuild(orders, ROWS)

    assert orders.rows_of() == before
    rebuild(orders, OTHER)
    assert goes_on(orders, OTHER)


def test_a_rebuild_whose_files_clean_up_may_have_deleted_changes_nothing(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(orders, ROWS)
    before = orders.rows_of()
    monkeypatch.setattr(batch_age, "OLDEST", timedelta(0))

    with pytest.raises(CommitRejectedError, match="took more than a day"):
        rebuild(orders, OTHER)

    assert orders.rows_of() == before
    monkeypatch.undo()
    rebuild(orders, OTHER)
    assert is_query(orders, OTHER)


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let what follows be a process that has read no module yet."""

    def forget() -> None:
        monkeypatch.setattr(function, "READ_FIRST", {})

    forget()
    return forget


def test_a_driver_whose_module_changed_under_it_publishes_no_rows_of_the_old_code(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, restart: Callable[[], None]
) -> None:
    module = orders.folder / "cleaning.py"
    module.write_text("def rows(orders):\n    return orders\n")
    spec = spec_of(function="cleaning:rows", folder=str(orders.folder))
    driver = orders.transformation(spec)
    driver.batch()
    orders.add(3)
    module.write_text("def rows(orders):\n    return orders.where('n > 1')\n")
    with monkeypatch.context() as other_process:
        other_process.setattr(function, "READ_FIRST", {})
        rebuild(orders, spec)
    seen = orders.rows_of()
    orders.add(4)

    with pytest.raises(TransformHaltedError, match="has changed since this process read it") as halted:
        driver.batch()

    assert "restart" in str(halted.value.hint)
    assert orders.rows_of() == seen
    restart()
    orders.transformation(spec).batch()
    assert is_query(orders, spec)


def test_a_transformation_begins_with_no_code_of_a_module_that_changed_since_another_one_read_it(
    orders: Orders, restart: Callable[[], None]
) -> None:
    (orders.folder / "shared_rules.py").write_text("LEAST = 0\n")
    for name in ("first", "second"):
        (orders.folder / f"{name}_of_two.py").write_text(
            "import shared_rules\n\ndef rows(orders):\n    return orders\n"
        )
    first = spec_of(function="first_of_two:rows", folder=str(orders.folder))
    second = replace(spec_of(function="second_of_two:rows", folder=str(orders.folder)), name="second", table="second")
    batch(orders, first)
    (orders.folder / "shared_rules.py").write_text("LEAST = 1\n")

    with pytest.raises(TransformHaltedError, match="has changed since this process read it"):
        batch(orders, second)

    assert orders.lake.load(second.identifier) is None
    restart()
    batch(orders, second)
    assert orders.lake.load(second.identifier) is not None


@pytest.mark.parametrize("comes", [True, False], ids=["comes", "goes"])
def test_a_module_that_comes_or_goes_is_a_change_of_the_code(
    orders: Orders, comes: bool, restart: Callable[[], None]
) -> None:
    name = "one_that_comes" if comes else "one_that_goes"
    module, more = orders.folder / f"{name}.py", orders.folder / f"more_of_{name}.py"
    module.write_text(
        f"try:\n    import more_of_{name}\nexcept ImportError:\n    pass\n\ndef rows(orders):\n    return orders\n"
    )
    if not comes:
        more.write_text("LEAST = 1\n")
    spec = spec_of(function=f"{name}:rows", folder=str(orders.folder))
    driver = orders.transformation(spec)
    driver.batch()
    if comes:
        more.write_text("LEAST = 1\n")
    else:
        more.unlink()
    orders.add(3)

    with pytest.raises(TransformHaltedError, match="has changed since this process read it"):
        driver.batch()

    restart()
    with pytest.raises(TransformHaltedError, match="has changed since the table was filled"):
        orders.transformation(spec).batch()
