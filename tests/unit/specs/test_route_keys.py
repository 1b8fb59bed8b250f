"""Specs with routes: the tables that they become, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from config_files import GOOD, Load

from frazil.cli.check import summarise
from frazil.model.errors import SettingError, SpecError
from frazil.model.policies import Policy
from frazil.model.routes import FieldCondition, Group, HeaderCondition, Route, unreachable
from frazil.specs.load import load_tables
from tests.routes import group_specs

KEYS = """
policies:
  hash_key: {id: one, secret: "${secret:hash}"}
  dead_letter_key: {id: two, secret: "${secret:letters}"}
"""
ORDER, REFUND = "{table: orders, schema: shop.Order}", "{table: refunds, header: {type: refund}}"


def spec(*routes: str, more: str = "") -> str:
    listed = "".join(f"  - {route}\n" for route in routes)
    return f"topic: events\ntable: events\n{more}\nroutes:\n{listed}"


def refusals(folder: Path, *texts: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    for name, text in zip("abc", texts, strict=False):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises((SettingError, SpecError)) as refused:
        load_tables(folder, {}, database="lake", catalog_type="jdbc")
    lines = refused.value.what.replace(f"{folder}/", "").splitlines()
    return [line for line in lines if line.startswith(("a.yaml", "b.yaml"))]


def test_each_route_is_a_table_with_the_group_beside_it(tmp_path: Path) -> None:
    orders, refunds = group_specs(tmp_path)

    group = Group(
        "lake",
        "events",
        (Route("orders", "shop.Order"), Route("refunds", None, (HeaderCondition("type", "refund"),))),
    )
    assert (orders.group, refunds.group) == (group, group)
    assert [orders.identifier, refunds.identifier] == ["lake.orders", "lake.refunds"]
    assert {orders.dead_letters_identifier, refunds.dead_letters_identifier} == {"lake.events__dead_letters"}
    assert replace(refunds, table="orders") == orders
    assert [line.partition(": append")[0] for line in summarise((orders, refunds))] == [
        "lake.orders <- events (schema shop.Order)",
        "lake.refunds <- events (header type: refund)",
    ]


def test_a_route_has_its_own_partitions_readers_and_columns(tmp_path: Path) -> None:
    own = (
        "{table: orders, schema: shop.Order, partition_by: [day], readers: [duckdb], columns: {email: {mask: redact}}}"
    )

    orders, others = group_specs(
        tmp_path, spec(own, "{table: others, schema: shop.Other}", more="partition_by: [year(at)]")
    )

    assert (orders.partition_by, others.partition_by) == (("day",), ("year(at)",))
    assert (orders.readers, others.readers) == (("duckdb",), ("snowflake", "athena", "duckdb"))
    assert dict(orders.policies.columns) == {"email": Policy("redact")}
    assert not others.policies
    assert orders.masked and others.masked
    assert "key" not in orders.metadata.keep
    assert "key" in others.metadata.keep


@pytest.mark.parametrize("more", ["", "value: protobuf", "value: json\nfields: {order: {kind: string}, n: long}"])
def test_a_route_by_field_has_paths_with_their_values_as_text(more: str, tmp_path: Path) -> None:
    by_field = "{table: orders, field: {order.kind: [new, 'old'], n: [1, true]}}"

    (orders,) = group_specs(tmp_path, spec(by_field, more=more))

    assert orders.group is not None
    (route,) = orders.group.routes
    assert route.fields == (FieldCondition("order.kind", ("new", "old")), FieldCondition("n", ("1", "true")))
    assert str(route) == "field order.kind: new or old, field n: 1 or true"
    assert json.loads(orders.group.routes_text()) == [
        {"table": "orders", "field": {"order.kind": ["new", "old"], "n": ["1", "true"]}}
    ]


def test_a_route_by_schema_names_the_message_of_its_table(tmp_path: Path) -> None:
    tables = group_specs(tmp_path, spec(ORDER, REFUND, more="value: protobuf\nmessage: shop.Event"))

    assert [table.value_settings.message for table in tables] == ["shop.Order", "shop.Event"]


def test_all_tables_of_a_masked_group_have_the_key_of_dead_letters(load: Load) -> None:
    masked = "{table: orders, schema: shop.Order, columns: {email: {mask: hash}}}"

    orders, others = load(GOOD + KEYS, spec(masked, "{table: others, schema: shop.Other}")).tables

    assert orders.dead_letter_key is not None and others.dead_letter_key == orders.dead_letter_key
    assert orders.value_settings.hash_key is not None
    assert others.value_settings.hash_key is None


def test_a_group_without_a_table_has_the_topics_name(tmp_path: Path) -> None:
    (orders,) = group_specs(tmp_path, f"topic: shop.Events\nroutes: [{ORDER}]")

    assert orders.dead_letters_identifier == "lake.shop_events__dead_letters"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (spec("{table: orders}"), "routes[0]: a route needs a condition"),
        (spec("{schema: shop.Order}"), "routes[0].table: required key is missing"),
        (
            spec("{table: orders, field: {kind: a}}"),
            'routes[0].field.kind: expected a list, each text, a whole number, true or false, found "a"',
        ),
        (spec("{table: orders, field: {kind: []}}"), "routes[0].field.kind: the list is empty"),
        (spec("{table: orders, field: {'items[].kind': [a]}}"), "routes[0].field: expected a path, found "),
        (spec("{table: orders, field: {kind: [a, a]}}"), "routes[0].field.kind[1]: duplicate a in the list"),
        (
            spec("{table: orders, field: {kind: [a]}}", more="value: string"),
            "routes[0].field: no effect, because value is string, and each row holds the value as a whole",
        ),
        (
            spec("{table: orders, field: {kind: [a]}}", more="value: json"),
            "routes[0].field: no effect, because value is json, and each row holds the value as a whole",
        ),
        (
            spec("{table: orders, field: {kind: [a]}}", more="value: json\nfields: {kind: double}"),
            "routes[0].field: kind is declared as double",
        ),
        (
            spec("{table: orders, field: {a.kind: [a]}}", more="value: json\nfields: {a: {sort: string}}"),
            "routes[0].field: a.kind is not declared in `fields`",
        ),
        (
            spec("{table: orders, field: {kind: [a, b]}}", "{table: some, field: {kind: [b], n: [1]}}"),
            "routes[1]: some never gets a record: orders, which comes first, takes all of them",
        ),
        (
            spec(ORDER, more="value: json"),
            "routes[0].schema: no effect, because value is json: such values have no schema",
        ),
        (
            spec(ORDER, "{table: Orders, schema: b, readers: []}"),
            "routes[1].table: Orders is the table of an earlier route, too",
        ),
        (
            spec("{table: events__dead_letters, schema: a}"),
            "routes[0].table: events__dead_letters is the name of the dead letters table of these routes",
        ),
        (
            spec(ORDER, "{table: some, schema: shop.Order, header: {type: some}}"),
            "routes[1]: some never gets a record: orders, which comes first, takes all of them",
        ),
        (
            spec(ORDER, more="columns: {email: {mask: redact}}"),
            "columns: with routes, each table has its own columns",
        ),
        (
            spec("{table: orders, schema: shop.Order, columns: {c.email: {mask: redact}}}", REFUND),
            "routes[1]: refunds has no policy for c.email, and can get records like those whose c.email orders masks",
        ),
        (
            spec("{table: Orders, schema: shop.Order}", "{table: refunds, schema: shop.Refund}"),
            "routes[0].table: athena supports only lower-case names",
        ),
        ("topics: [a, b]\nroutes: [{table: x, schema: y}]", "topics: a spec with several topics requires a table"),
        ("topic: events\nroutes: []", "routes: the list is empty"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, found: str, tmp_path: Path) -> None:
    (line,) = refusals(tmp_path / "tables", text)

    assert found in line


@pytest.mark.parametrize("policy", ["c.email: {mask: none}", "c: {drop: true}", "c.email: {mask: truncate, length: 2}"])
def test_a_route_by_header_states_what_happens_to_values_that_another_masks(policy: str, tmp_path: Path) -> None:
    masked = "{table: orders, schema: shop.Order, columns: {c.email: {mask: redact}}}"

    _, refunds = group_specs(
        tmp_path, spec(masked, f"{{table: refunds, header: {{type: refund}}, columns: {{{policy}}}}}")
    )

    assert refunds.policies


def test_a_problem_that_all_routes_have_is_named_once(tmp_path: Path) -> None:
    (line,) = refusals(tmp_path / "tables", spec(ORDER, REFUND, more="formats: [delta]"))

    assert "delta is only supported together with iceberg" in line


def test_names_of_tables_and_dead_letters_differ_across_specs(tmp_path: Path) -> None:
    other = "topic: x\ntable: {}"
    group = spec(ORDER, "{table: refunds, schema: shop.Refund}")

    assert refusals(tmp_path / "1", group, other.format("refunds")) == [
        f"b.yaml:2:8: table: {tmp_path}/1/a.yaml also writes lake.refunds".replace(f"{tmp_path}/1/", "")
    ]
    assert "is the dead letters table of a.yaml, too" in refusals(tmp_path / "2", group, other.format("events"))[0]
    (line,) = refusals(tmp_path / "3", other.format("events"), group)
    assert line.startswith("b.yaml:2:8: table: lake.events__dead_letters is the dead letters table of a.yaml, too")
    (line,) = refusals(tmp_path / "4", other.format("events__dead_letters"), group)
    assert "the dead letters of lake.events would go to lake.events__dead_letters, which a.yaml writes" in line


def test_a_route_that_includes_an_earlier_one_gets_no_record() -> None:
    refunded = HeaderCondition("type", "refund")
    orders, refunds = Route("orders", "shop.Order"), Route("refunds", headers=(refunded,))
    both = Route("c", "shop.Order", (refunded,))

    kind = Route("e", fields=(FieldCondition("kind", ("a", "b")),))
    narrow = Route("f", "shop.Order", fields=(FieldCondition("n", ("1",)), FieldCondition("kind", ("b",))))

    assert list(unreachable([orders, refunds, both])) == [(0, 2)]
    assert list(unreachable([kind, narrow])) == [(0, 1)]
    assert list(unreachable([narrow, kind, Route("g", fields=(FieldCondition("kind", ("a", "c")),))])) == []
    assert list(unreachable([both, orders, refunds])) == []
    assert list(unreachable([refunds, orders, Route("d", headers=(refunded, HeaderCondition("v", "2")))])) == [(0, 2)]
