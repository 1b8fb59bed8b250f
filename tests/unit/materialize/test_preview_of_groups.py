"""`explain` and `check` preview the tables of a group as its next batch treats them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from grouped_tables import ROUTES, GroupWorld, specs
from test_pause_of_groups import refused_refund, world

from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.preview.explain import explain, lines
from frazil.model.errors import PausedError
from frazil.model.routes import Route
from frazil.model.spec import TableSpec

__all__ = ["world"]

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def explained(world: GroupWorld, *tables: TableSpec) -> list[str]:
    runs = world.driver(*tables).of_each_table()
    return [line for run in runs for line in lines(explain(run))]


def test_a_schema_that_is_excluded_for_the_group_is_no_problem_of_the_table_that_cannot_hold_it(
    world: GroupWorld,
) -> None:
    schema_id = refused_refund(world)
    first, *others = specs()
    change_excluded(world.lake, world.registry, first, others=others, exclude=[schema_id])
    resume(world.lake, first)
    world.registry.register("shop.Refund", world.registry.schemas[schema_id].text)

    assert world.check_all() == []
    assert explained(world)[-2:] == ["lake.refunds", "  read together with lake.orders"]
    world.catch_up()


def test_a_paused_group_is_one_problem(world: GroupWorld) -> None:
    pause(world.lake, specs()[0], by="ann", why="a repair", at=NOW)

    (problem,) = world.check_all()

    assert isinstance(problem, PausedError)
    assert problem.what.startswith("the table lake.orders is paused")
    shown = explained(world)
    assert shown[:2] == ["lake.orders", "  halt: PausedError"]
    assert shown[-2:] == ["lake.refunds", "  read together with lake.orders"]


def test_the_rows_so_far_are_those_of_all_tables(world: GroupWorld) -> None:
    assert "  nothing to do: read to the end of every partition, rows made of 3 records" in explained(world)


def test_a_table_whose_route_was_added_is_shown_without_a_plan(world: GroupWorld) -> None:
    tables = specs(*ROUTES, Route("others", "shop.Other"))

    shown = explained(world, *tables)

    assert [line for line in shown if line.startswith("lake.")] == ["lake.orders", "lake.refunds", "lake.others"]
    assert "  new table: kafka_offset: long" in shown[shown.index("lake.others") :]
    assert shown[-1] == "  read together with lake.orders"


def test_the_preview_of_a_group_that_is_not_made_shows_one_plan(tmp_path: Path) -> None:
    world = GroupWorld.at(tmp_path)
    world.send("order", "refund")

    shown = explained(world)

    assert sum("epoch 1: 2 offsets" in line for line in shown) == 1
    assert shown[-1] == "  read together with lake.orders"
