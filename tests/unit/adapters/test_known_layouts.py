"""A table's layout is worked out once for each schema, partition spec and sort order, and is never that of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.adapters.iceberg import known_layouts
from frazil.adapters.iceberg.known_layouts import Layout, layout_of
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.recent import Recent
from frazil.model.changes import AddColumn
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView

IDENTIFIER = "lake.orders"
COLUMNS = (Column("n", Scalar("long")), Column("symbol", Scalar("string")))


@pytest.fixture
def settings(tmp_path: Path) -> CatalogSettings:
    made = CatalogSettings("jdbc", str(tmp_path))
    create(IcebergLake(made), IDENTIFIER)
    return made


def create(lake: IcebergLake, identifier: str, *, partition_by: tuple[str, ...] = ()) -> TableView:
    return lake.create(identifier, COLUMNS, partition_by=partition_by, properties={}, summary={})


def load(lake: IcebergLake) -> TableView:
    found = lake.load(IDENTIFIER)
    assert found is not None
    return found


def layouts(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> tuple[Layout, Layout]:
    """What is known of the table, and what is worked out anew."""
    metadata = load(lake).current.metadata
    known = layout_of(metadata)
    with monkeypatch.context() as forgetting:
        forgetting.setattr(known_layouts, "_KNOWN", Recent(1))
        return known, layout_of(metadata)


def test_a_commit_that_leaves_the_layout_alone_shares_it(settings: CatalogSettings) -> None:
    lake = IcebergLake(settings)
    before = load(lake)
    lake.set_property_at(before, "owner", "sales")

    after = load(lake)

    assert after.properties["owner"] == "sales"
    assert layout_of(after.current.metadata) is layout_of(before.current.metadata)


@pytest.mark.parametrize("others", [False, True])
def test_each_change_is_seen_at_once(settings: CatalogSettings, others: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = IcebergLake(settings)
    changing = IcebergLake(settings) if others else lake
    seen = [layouts(lake, monkeypatch)]

    changing.change_schema(load(changing), [AddColumn("day", Scalar("date"))], {})
    seen.append(layouts(lake, monkeypatch))
    changing.change_schema(load(changing), [], {}, partition_by=("symbol",))
    seen.append(layouts(lake, monkeypatch))
    changing.change_schema(load(changing), [], {}, sort_by=("n",))
    seen.append(layouts(lake, monkeypatch))

    assert [known for known, _ in seen] == [anew for _, anew in seen]
    assert [len(known.columns) for known, _ in seen] == [2, 3, 3, 3]
    assert [known.partition_fields for known, _ in seen] == [(), (), ("symbol",), ("symbol",)]
    assert [bool(known.sort_fields) for known, _ in seen] == [False, False, False, True]


def test_a_table_that_is_made_again_has_its_own_layout(settings: CatalogSettings) -> None:
    lake = IcebergLake(settings)
    assert load(lake).partition_fields == ()
    lake.catalog.drop_table(IDENTIFIER)

    create(lake, IDENTIFIER, partition_by=("symbol",))

    assert load(lake).partition_fields == ("symbol",)


def test_layouts_are_kept_up_to_their_limit(settings: CatalogSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, other = IcebergLake(settings), create(IcebergLake(settings), "lake.others")
    monkeypatch.setattr(known_layouts, "_KNOWN", Recent(3))
    view = load(lake)
    first = layout_of(view.current.metadata)

    assert layout_of(view.current.metadata) is first
    layout_of(other.current.metadata)
    assert layout_of(view.current.metadata) is not first
