"""The tables that a command names: those of a group are selected together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from config_files import GOOD, Load

from frazil.model.errors import SpecError
from frazil.model.policed import policed_by_all
from frazil.model.policies import Policy
from frazil.model.settings import Settings
from frazil.model.transforms import TransformSpec
from frazil.specs.select import read_together, read_with, select_ledger, select_own_table, select_table, select_tables
from tests.routes import EVENTS, group_specs


@pytest.fixture
def settings(load: Load) -> Settings:
    return load(GOOD, EVENTS, "topic: trades", "topic: more\ntable: more")


@pytest.mark.parametrize("name", ["orders", "lake.orders", "refunds", "events", "lake.events"])
def test_any_name_of_a_group_selects_all_its_tables(name: str, settings: Settings) -> None:
    assert [spec.table for spec in select_tables(settings, [name])] == ["orders", "refunds"]


def test_tables_come_in_the_order_of_the_files(settings: Settings) -> None:
    assert [spec.table for spec in select_tables(settings, ["trades", "refunds"])] == ["orders", "refunds", "trades"]
    assert [spec.table for spec in select_tables(settings, [])] == ["orders", "refunds", "trades", "more"]


def test_one_table_is_selected_alone_and_a_group_by_its_first(settings: Settings) -> None:
    assert select_table(settings, "refunds").table == "refunds"
    assert select_table(settings, "events").table == "orders"
    assert [spec.table for spec in read_with(settings, select_table(settings, "refunds"))] == ["orders", "refunds"]
    assert [spec.table for spec in read_with(settings, select_table(settings, "more"))] == ["more"]


def test_a_pause_and_dead_letters_belong_to_the_ledger_of_a_group(settings: Settings) -> None:
    assert [select_ledger(settings, name).table for name in ("refunds", "events", "more")] == [
        "orders",
        "orders",
        "more",
    ]


def test_the_name_of_a_group_is_no_single_table(settings: Settings) -> None:
    assert select_own_table(settings, "lake.refunds").table == "refunds"
    for name in ("events", "lake.events"):
        with pytest.raises(SpecError, match=f"{name} is a group of tables") as refused:
            select_own_table(settings, name)
        assert refused.value.hint == "name one of: orders, refunds"


def test_tables_are_divided_into_those_that_are_read_together(settings: Settings) -> None:
    together = read_together(select_tables(settings, []))

    assert [[spec.table for spec in tables] for tables in together] == [["orders", "refunds"], ["trades"], ["more"]]


def test_an_unknown_table_is_named(settings: Settings) -> None:
    with pytest.raises(SpecError, match="no table order in the specs") as refused:
        select_tables(settings, ["order"])
    assert refused.value.hint == "did you mean orders?"
    with pytest.raises(SpecError) as refused:
        select_tables(settings, ["event"])
    assert refused.value.hint == "did you mean events?"


def test_a_name_like_none_of_many_tables_says_where_they_are_listed(settings: Settings) -> None:
    many = [replace(settings.tables[-1], table=f"more_{number}") for number in range(13)]
    with pytest.raises(SpecError) as refused:
        select_table(replace(settings, tables=(*many,)), "people")
    assert refused.value.hint == "`frazil check --offline` lists the tables"


def test_a_table_of_a_transformation_is_called_so(settings: Settings) -> None:
    made = TransformSpec(source_file="", name="totals", database="lake", table="totals", source="lake.trades")
    with pytest.raises(SpecError, match=r"lake\.totals is the table of the transformation totals") as refused:
        select_tables(replace(settings, transforms=(made,)), ["lake.totals"])
    assert refused.value.hint == "`frazil transform --help` lists the commands for transformations"


@pytest.mark.parametrize(
    ("name", "instead"), [("trades__dead_letters", "trades"), ("lake.events__dead_letters", "events")]
)
def test_dead_letters_are_named_by_their_table(settings: Settings, name: str, instead: str) -> None:
    with pytest.raises(SpecError, match=f"{name} is the table of the dead letters of lake.{instead}") as refused:
        select_table(settings, name)

    assert refused.value.hint == f"name the table instead: {instead}"


def test_records_of_a_group_are_shown_with_the_policies_of_all_its_tables(tmp_path: Path) -> None:
    masked = "columns: {email: {mask: redact}, phone: {mask: none}}"
    specs = group_specs(
        tmp_path,
        "topic: events\nroutes:\n"
        f"  - {{table: orders, schema: shop.Order, {masked}}}\n"
        "  - {table: others, header: {a: b}, columns: {email: {mask: none}, phone: {mask: truncate, length: 2}}}\n",
    )

    shown = policed_by_all(specs)

    expected = {"email": Policy("redact"), "phone": Policy("truncate", 2)}
    assert dict(shown.policies.columns) == dict(shown.value_settings.policies.columns) == expected
