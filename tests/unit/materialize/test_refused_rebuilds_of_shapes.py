"""What keeps shapes from being rebuilt or rewound (docs/decisions/0053)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rebuilt_shapes import (
    check_rebuilt,
    made_otherwise,
    rebuild_dies_at,
    rebuilding,
)
from shaped_tables import TABLES, SavedShapes, Shapes
from test_shapes import LATE, SOME

from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.model.errors import GroupApartError, RebuildError, StateLostError
from frazil.model.routes import Group, Route
from frazil.proof.verification import FindingKind
from tests.sampling import in_long_runs


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedShapes:
    return SavedShapes.of(made_otherwise(tmp_path_factory.mktemp("lake") / "warehouse"))


@pytest.fixture
def shapes(saved: SavedShapes) -> Shapes:
    return saved.restored()


def test_a_table_that_others_changed_before_it_was_replaced_halts_the_group(
    shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild_dies_at(shapes, "now", monkeypatch)
    head = shapes.stands("now").view.head
    loaded = shapes.world.lake.catalog.load_table("lake.now")
    loaded.delete("kafka_offset = 0")

    with pytest.raises(GroupApartError, match=rf"set its `main` to snapshot {head}") as halted:
        shapes.driver().batch()
    assert "completes the rebuild" in str(halted.value)
    assert (
        halted.value.hint
        == f"set `main` of lake.now to snapshot {head}, and run again; see docs/operate.md, GroupApartError"
    )
    assert FindingKind.GROUP_APART in {finding.kind for each in shapes.verified() for finding in each.findings}

    with loaded.manage_snapshots() as manage:
        manage.set_current_snapshot(head)
    shapes.catch_up()
    check_rebuilt(shapes)


def test_what_others_did_to_one_table_is_not_dropped_silently(shapes: Shapes) -> None:
    shapes.world.lake.catalog.load_table("lake.history").delete("kafka_key = 'a'")

    with pytest.raises(RebuildError, match=r"lake\.history: other writers have .* removed"):
        rebuilding(shapes).perform()
    rebuilding(shapes, drop_foreign=True).perform()

    check_rebuilt(shapes)


@in_long_runs
def test_a_rewind_begins_at_a_batch_that_all_tables_have(tmp_path: Path) -> None:
    shapes = Shapes.at(tmp_path)
    for batch in (SOME, LATE):
        shapes.send(*batch)
        shapes.catch_up()
    view = shapes.stands("history").view
    older = [each.id for each in view.ancestry(view.head)][1:]
    loaded = shapes.world.lake.catalog.load_table("lake.history")
    tags = [name for name in view.tags if name.startswith("frazil_epoch_")]
    for name in tags:
        with loaded.manage_snapshots() as manage:
            manage.remove_tag(name)
    loaded.maintenance.expire_snapshots().by_ids(older).commit()

    with pytest.raises(RebuildError, match="no snapshot from before that any more"):
        rebuilding(shapes, target=ToOffsets({"orders": {0: 1}})).perform()


@in_long_runs
def test_a_rollback_of_one_table_across_a_rebuild_is_refused(shapes: Shapes) -> None:
    before = shapes.stands("now").view.head
    rebuilding(shapes).perform()
    with shapes.world.lake.catalog.load_table("lake.now").manage_snapshots() as manage:
        manage.set_current_snapshot(before)

    with pytest.raises(StateLostError, match="rolled back across a rebuild"):
        shapes.driver().batch()


def test_the_way_out_of_tables_that_are_apart_names_no_batch_of_what_was_built(shapes: Shapes) -> None:
    """What was built has more epochs than the tables, and none of them can be gone back to."""
    small = replace(shapes.tables[0].trigger, rows=1)
    rebuilding(shapes, tables=[replace(each, trigger=small) for each in shapes.tables]).perform()
    epoch, rebuilt = shapes.stands("now").state.epoch, shapes.stands("now").view.head
    shapes.send(("a", 9, 40, 0))
    shapes.catch_up()
    with shapes.world.lake.catalog.load_table("lake.now").manage_snapshots() as manage:
        manage.set_current_snapshot(rebuilt)

    with pytest.raises(GroupApartError, match=rf"to epoch {epoch + 1} "):
        shapes.driver().batch()


def test_other_shapes_are_refused(shapes: Shapes) -> None:
    group = Group("lake", "customers", (Route("log"), Route("now")))
    fewer = tuple(replace(each, group=group) for each in shapes.tables[:2])
    before = [shapes.stands(table).view.head for table in TABLES]

    with pytest.raises(RebuildError, match="a rebuild makes the same tables again"):
        rebuilding(shapes, tables=fewer).perform()

    assert [shapes.stands(table).view.head for table in TABLES] == before
