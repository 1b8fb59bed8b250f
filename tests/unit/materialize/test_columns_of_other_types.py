"""`on_incompatible_schema: new_column`: whole batches over a topic in memory."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from policed_tables import DROP, HASH, REDACT, masked
from values_of_tables import spec
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.preview.candidate import plan_schema
from frazil.materialize.preview.explain import explain, lines
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import UNREGISTERED, RegisteredSchema
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(on_incompatible_schema="new_column", bad_record_limit=BadRecordLimit.off())


def order(price: Any, **also: Any) -> str:
    item = {"type": "record", "name": "Item", "fields": [a_field("price", price)]}
    return record(a_field("price", price), a_field("items", {"type": "array", "items": item}), *also.values())


TEXT, NUMBER, FLAG = order("string"), order("long"), order("boolean")
SCHEMAS = {1: (TEXT, "1.5"), 2: (NUMBER, 15), 3: (FLAG, True), 4: (order("int"), 4)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def sent(schema_id: int) -> bytes:
    text, price = SCHEMAS[schema_id]
    return framed(schema_id, text, {"price": price, "items": [{"price": price}]})


def register(world: World, *schema_ids: int) -> None:
    for schema_id in schema_ids:
        world.registry.register("orders-value", SCHEMAS[schema_id][0])


def rows(world: World, *names: str, wanted: TableSpec = SPEC) -> list[dict[str, Any]]:
    found = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow().sort_by("kafka_offset")
    return cast("list[dict[str, Any]]", found.select(names).to_pylist())


def findings(world: World, wanted: TableSpec = SPEC) -> list[str]:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return [str(each) for each in verify_table(world.lake, wanted, kafka=kafka).findings]


def test_each_type_has_its_own_column_whatever_the_order_of_the_writers(world: World) -> None:
    register(world, 1)
    world.values += [sent(1)]
    drained(world, SPEC)
    register(world, 2)
    world.values += [sent(2), sent(1), sent(2)]
    shown = [each.strip() for each in lines(explain(world.table(SPEC)))]

    changes = ["add column price__v2: long, beside price", "add column items[].price__v2: long, beside items[].price"]
    assert [each for each in shown if each.startswith("add column")] == changes
    assert drained(world, SPEC) == changes
    register(world, 3)
    world.values += [sent(3), sent(1), sent(2)]
    assert drained(world, SPEC) == [each.replace("v2: long", "v3: boolean") for each in changes]
    register(world, 4)
    world.values += [sent(4), sent(1)]
    assert drained(world, SPEC) == []
    prices = [("1.5", None, None), (None, 15, None), ("1.5", None, None), (None, 15, None), (None, None, True)]
    prices += [("1.5", None, None), (None, 15, None), (None, 4, None), ("1.5", None, None)]
    names = ("price", "price__v2", "price__v3")
    assert [tuple(row.values()) for row in rows(world, *names)] == prices
    assert [tuple(row["items"][0][name] for name in names) for row in rows(world, "items")] == prices
    assert findings(world) == []


@pytest.mark.parametrize("order_of_offsets", list(itertools.permutations((1, 2, 3))))
def test_schemas_that_are_met_at_once_get_columns_in_the_order_of_their_ids(
    world: World, order_of_offsets: tuple[int, ...]
) -> None:
    register(world, 1)
    world.values += [sent(1)]
    drained(world, SPEC)
    for schema_id in (2, 3):
        world.registry.register("other-value", SCHEMAS[schema_id][0])
    world.values += [sent(each) for each in order_of_offsets]

    drained(world, SPEC)

    found = world.lake.load(SPEC.identifier)
    assert found is not None
    types = {each.name: str(each.type) for each in found.columns if each.name.startswith("price")}
    assert sorted(types.values()) == ["boolean", "long", "string"]
    assert findings(world) == []


def test_a_field_of_another_type_and_a_new_name_fills_the_renamed_fields_columns(world: World) -> None:
    world.registry.register("orders-value", record(a_field("a", "string")))
    world.registry.register("orders-value", record(a_field("a", "long")))
    world.registry.register("orders-value", record(a_field("b", "string", "a")))
    world.registry.register("orders-value", record(a_field("b", "long", "a")))
    texts = [json.dumps(json.loads(world.registry.schemas[n].text)) for n in (1, 2, 3, 4)]
    values = ({"a": "x"}, {"a": 2}, {"b": "y"}, {"b": 4})
    world.values += [framed(n, texts[n - 1], values[n - 1]) for n in (1, 2, 3, 4, 1, 2)]

    drained(world, SPEC)

    found = world.lake.load(SPEC.identifier)
    assert found is not None
    assert {each.name for each in found.columns if not each.name.startswith("kafka_")} == {"b", "b__v2"}
    assert findings(world) == []


def test_a_name_that_is_taken_is_left_out_and_never_shared(world: World) -> None:
    world.registry.register("orders-value", record(a_field("n", "string"), a_field("N__V2", "string")))
    first = record(a_field("n", "string"), a_field("N__V2", "string"))
    second = record(a_field("n", "long"))
    third = record(a_field("n__v3", "long"))
    world.values += [framed(1, first, {"n": "a", "N__V2": "b"})]
    drained(world, SPEC)
    world.registry.register("orders-value", second)
    world.values += [framed(2, second, {"n": 1})]

    assert drained(world, SPEC) == ["add column n__v3: long, beside n"]
    world.registry.register("orders-value", third)
    with pytest.raises(IncompatibleSchemaError, match="n__v3: has the name of a column that holds values of another"):
        drained(world, SPEC)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"partition_by": ("price",)}, "a column in `partition_by` gets none beside it"),
        ({"evolution": "strict"}, "price: is long, and was string in the former schema: `evolution: strict`"),
        ({"on_incompatible_schema": "pause"}, "price: is long in the writer's schema, the table has string"),
    ],
)
def test_what_cannot_have_a_second_column_pauses_the_table(world: World, more: dict[str, Any], problem: str) -> None:
    wanted = replace(SPEC, **more)
    register(world, 1)
    world.values += [sent(1)]
    drained(world, wanted)
    plan = plan_schema(world.lake, world.registry, wanted, RegisteredSchema(UNREGISTERED, "AVRO", NUMBER), of_key=False)
    register(world, 2)

    assert any(problem in f"{each.path}: {each.problem}" for each in plan.findings)
    with pytest.raises(IncompatibleSchemaError, match=problem):
        drained(world, wanted)
    view = world.lake.load(wanted.identifier)
    assert view is not None
    assert "price__v2" not in {each.name for each in view.columns}


def test_a_schema_plan_names_the_column_and_the_one_beside_it(world: World) -> None:
    register(world, 1)
    world.values += [sent(1)]
    drained(world, SPEC)

    schema = RegisteredSchema(UNREGISTERED, "AVRO", record(a_field("price", "long")))
    plan = plan_schema(world.lake, world.registry, SPEC, schema, of_key=False)

    assert plan.to_json()["changes"] == [
        {"change": "add", "path": "price__v2", "type": "long", "doc": None, "beside": "price"}
    ]
    assert any(str(note).endswith("long in the newest schema: null in new rows") for note in plan.notes)


def test_columns_stay_and_are_filled_once_the_setting_is_another_one(world: World) -> None:
    register(world, 1)
    world.values += [sent(1)]
    drained(world, SPEC)
    register(world, 2)
    world.values += [sent(2)]
    drained(world, SPEC)
    world.values += [sent(2), sent(1)]
    paused = replace(SPEC, on_incompatible_schema="pause")

    assert drained(world, paused) == []
    assert [row["price__v2"] for row in rows(world, "price__v2")] == [None, 15, 15, None]
    assert findings(world, paused) == []


def test_dead_letters_of_another_type_become_rows_once_the_setting_is_new_column(world: World) -> None:
    register(world, 1)
    world.values += [sent(1), sent(2), sent(1)]
    drained(world, SPEC)
    register(world, 2)
    world.registry.missing.clear()

    table = world.table(SPEC)
    table.clients = replace(table.clients, new_id=lambda: "replay")
    result = table.replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z"))

    assert (result.replayed, dict(result.stayed)) == (1, {})
    assert [row["price__v2"] for row in rows(world, "price__v2")] == [None, 15, None]
    assert findings(world) == []


PERSON = record(a_field("id"), a_field("email", "string"))
NUMBERED = record(a_field("id"), a_field("email", "long"))


@pytest.mark.parametrize(("policy", "value"), [(REDACT, None), (HASH, "hash")])
def test_a_policy_masks_the_column_of_another_type(world: World, policy: Any, value: str | None) -> None:
    wanted = masked({"email": policy}, on_incompatible_schema="new_column")
    world.registry.register("orders-value", PERSON)
    world.values += [framed(1, PERSON, {"id": 1, "email": "a@b"})]
    drained(world, wanted)
    world.registry.register("orders-value", NUMBERED)
    world.values += [framed(2, NUMBERED, {"id": 2, "email": 351_123}), framed(1, PERSON, {"id": 3, "email": "c@d"})]

    changes = drained(world, wanted)

    view = world.lake.load(wanted.identifier)
    assert view is not None
    assert {each.name: each.mask for each in view.columns if each.name.startswith("email")} == (
        {"email": "hash"} if value else {"email": "redact", "email__v2": "redact"}
    )
    assert changes == ([] if value else ["add column email__v2: long, masked: redact, beside email"])
    assert "351123" not in str(rows(world, *(each.name for each in view.columns), wanted=wanted))
    assert findings(world, wanted) == []


USER = {"type": "record", "name": "User", "fields": [a_field("email", "string"), a_field("name", "string")]}


@pytest.mark.parametrize(
    ("columns", "tags", "before", "after", "value"),
    [
        ({"user.email": REDACT}, {}, a_field("user", USER), a_field("user", "string"), {"email": "e", "name": "n"}),
        ({"user.email": DROP}, {}, a_field("user", USER), a_field("user", "string"), {"email": "e", "name": "n"}),
        ({}, {"PII": REDACT}, {**a_field("user", "string"), "confluent:tags": ["PII"]}, a_field("user"), "x"),
    ],
)
def test_another_type_is_no_way_around_a_policy(
    world: World, columns: Any, tags: Any, before: dict[str, Any], after: dict[str, Any], value: Any
) -> None:
    wanted = masked(columns, tags, on_incompatible_schema="new_column")
    world.registry.register("orders-value", record(a_field("id"), before))
    world.values += [framed(1, record(a_field("id"), before), {"id": 1, "user": value})]
    drained(world, wanted)
    world.registry.register("orders-value", record(a_field("id"), after))

    with pytest.raises(IncompatibleSchemaError, match=r"user: (is string .* policies|has no policy)"):
        drained(world, wanted)
