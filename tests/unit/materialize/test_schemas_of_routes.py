"""The writer schemas for which a table of a group gets columns, and what its tasks get."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from grouped_tables import ROUTES, GroupWorld
from grouped_tables import specs as grouped
from policed_tables import HASH, HASH_KEY, LETTER_KEY, masked
from values_of_tables import state, topic, view

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.clients import table_runs
from frazil.materialize.evolve import known_schemas
from frazil.materialize.group.shares import known_to_all
from frazil.materialize.ingest.distribute import BatchTable, task_context
from frazil.materialize.preview.candidate import plan_schema
from frazil.materialize.preview.explain import Explanation, lines
from frazil.materialize.schema.routed import route_without_schema
from frazil.materialize.schema.routed_fields import note_on_fields
from frazil.materialize.sources import LatestSchemas, latest_schemas
from frazil.model.changes import AddColumn
from frazil.model.errors import SpecChangeError, SpecError, SubjectMissingError
from frazil.model.plan import BatchPlan, Halt, WriterSchemas
from frazil.model.schemas import NONE_EXCLUDED, SchemaDefinition
from frazil.model.settings import CatalogSettings
from frazil.model.spec import SubjectSettings, TableSpec
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.routes import group_specs

ORDER, REFUND = record(a_field("n"), name="shop.Order"), record(a_field("why"), name="shop.Refund")


@pytest.fixture
def specs(tmp_path: Path) -> tuple[TableSpec, ...]:
    return group_specs(tmp_path)


def registry(*subjects: tuple[str, str]) -> RegistryInMemory:
    made = RegistryInMemory()
    for subject, text in subjects:
        made.register(subject, text)
    return made


def ids(found: LatestSchemas) -> list[object]:
    return [schema.id for schema in found.values]


def test_a_table_is_made_for_the_newest_schema_if_its_route_takes_it(specs: tuple[TableSpec, ...]) -> None:
    orders, refunds = specs
    newest_is_a_refund = registry(("events-value", ORDER), ("events-value", REFUND))

    assert ids(latest_schemas(newest_is_a_refund, orders)) == []
    assert ids(latest_schemas(newest_is_a_refund, refunds)) == [2]


@pytest.mark.parametrize(("naming", "subject"), [("record", "shop.Order"), ("topic-record", "events-shop.Order")])
def test_a_schema_of_a_route_that_no_subject_has_is_noted(
    naming: str, subject: str, specs: tuple[TableSpec, ...]
) -> None:
    orders, refunds = (replace(each, value_subject=SubjectSettings(naming)) for each in specs)  # type: ignore[arg-type]
    found = latest_schemas(registry((subject.lower(), ORDER)), orders).values

    assert str(route_without_schema(orders, found)).startswith(
        "the registry has no subject of the route's schema shop.Order: correct `schema` in "
    )
    assert route_without_schema(orders, latest_schemas(registry((subject, ORDER)), orders).values) is None
    assert route_without_schema(refunds, found) is None, "a route by header takes any schema"
    assert route_without_schema(specs[0], ()) is None, "an older version of the topic's subject can have the name"


BY_FIELD = """
topic: events
table: events
routes:
  - {{table: orders, field: {{{path}: [x]}}}}
  - {{table: refunds, header: {{type: refund}}}}
"""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("kind", None),
        ("inner.number", None),
        ("knd", "the field knd of the route, .* if it is misspelt \\(did you mean kind\\?\\)"),
        ("inner.kind", "the field inner.kind of the route"),
        ("price", "the field price of the route, or only with a type that routes do not compare"),
    ],
)
def test_a_field_of_a_route_that_no_schema_has_is_noted(tmp_path: Path, path: str, said: str | None) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [a_field("number")]}
    text = record(a_field("kind", "string"), a_field("price", "double"), a_field("inner", inner))
    known = registry(("events-value", text))
    orders, refunds = group_specs(tmp_path, BY_FIELD.format(path=path))

    def note(spec: TableSpec) -> str | None:
        return note_on_fields(spec, latest_schemas(known, spec).values)

    assert note(refunds) is None, "it has no condition on fields"
    found = note(orders)
    assert found is None if said is None else re.search(said, str(found))
    assert note_on_fields(orders, ()) is None, "no schema is known yet"


@pytest.mark.parametrize(("naming", "subject"), [("record", "shop.Order"), ("topic-record", "events-shop.Order")])
def test_a_route_by_schema_names_its_subject(naming: str, subject: str, specs: tuple[TableSpec, ...]) -> None:
    orders, refunds = (replace(each, value_subject=SubjectSettings(naming)) for each in specs)  # type: ignore[arg-type]
    registered = registry(("events-other", REFUND), (subject, ORDER))

    assert ids(latest_schemas(registered, orders)) == [2]
    assert ids(latest_schemas(registered, refunds)) == []
    assert ids(latest_schemas(registry(), orders)) == [], "no record of this kind has been written yet"


def test_a_topic_without_a_schema_is_still_named(specs: tuple[TableSpec, ...]) -> None:
    with pytest.raises(SubjectMissingError, match="no subject events-value"):
        latest_schemas(registry(), specs[0])


def test_a_table_evolves_for_the_schemas_of_its_route(specs: tuple[TableSpec, ...]) -> None:
    both = registry(("events-value", ORDER), ("events-value", REFUND))
    met = state(schema_ids=(1, 2))

    known = [known_schemas(both, each, met, excluded=NONE_EXCLUDED).values for each in specs]

    assert [list(each) for each in known] == [[1], [1, 2]]


def test_a_plan_knows_a_schema_once_all_tables_that_can_get_it_have_columns(specs: tuple[TableSpec, ...]) -> None:
    both = registry(("events-value", ORDER), ("events-value", REFUND))
    order, refund = both.by_id(1), both.by_id(2)
    assert order is not None and refund is not None
    of_orders = WriterSchemas({1: order}, {7: order, 8: order})
    of_refunds = WriterSchemas({2: refund}, {8: order})

    known = known_to_all(list(zip(specs, (of_orders, of_refunds), strict=True)))

    assert (list(known.values), list(known.keys)) == ([2], [8]), "the route of refunds takes any schema"


def test_tasks_get_each_table_of_a_group_with_its_keys(specs: tuple[TableSpec, ...]) -> None:
    group = replace(specs[0].group, masked=True)  # type: ignore[type-var]
    orders = replace(specs[0], group=group, dead_letter_key=LETTER_KEY)
    refunds = masked({"email": HASH}, table="refunds", topics=("events",), group=group)
    tables = [
        BatchTable(each, replace(view(), identifier=each.identifier, location=each.table)) for each in (orders, refunds)
    ]
    plan = BatchPlan("lake.orders", "b1", 1, state(), (), WriterSchemas({}, {}), (topic({}),))

    context = task_context(
        tables, plan, replace(view(), identifier="lake.events__dead_letters"), writer="w", kafka={}, registry=None,
        storage={},
    )  # fmt: skip

    assert [(each.route, each.rows.identifier) for each in context.routes] == [
        (group.routes[0], "lake.orders"),
        (group.routes[1], "lake.refunds"),
    ]
    assert context.rows == context.routes[0].rows
    assert context.policed is not None and context.policed.dead_letter_key == LETTER_KEY.read()
    assert context.routes[1].spec.value_settings.hash_key == HASH_KEY.read()
    assert context.routes[0].spec.dead_letter_key == LETTER_KEY.read()


def test_tasks_of_a_table_without_a_group_get_no_routes() -> None:
    plan = BatchPlan("lake.orders", "b1", 1, state(), (), WriterSchemas({}, {}), (topic({}),))

    context = task_context(
        [BatchTable(masked({"email": HASH}), view())], plan, view(), writer="w", kafka={}, registry=None, storage={}
    )

    assert context.routes == ()


def test_a_schema_that_the_route_does_not_take_changes_nothing(specs: tuple[TableSpec, ...], tmp_path: Path) -> None:
    registered = registry(("events-value", ORDER))
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))
    refund = registered.resolve(SchemaDefinition("AVRO", REFUND))

    of_orders, of_refunds = (plan_schema(lake, registered, spec, refund, of_key=False) for spec in specs)

    said = "the table's route takes records of shop.Order, and the schema is shop.Refund"
    assert [note.problem for note in of_orders.notes] == [said]
    assert (of_orders.changes, of_orders.refusal("it")) == ((), None)
    assert [change.path for change in of_refunds.changes if isinstance(change, AddColumn)] == ["why"]


def test_only_the_ledger_of_a_group_shows_the_plan(specs: tuple[TableSpec, ...]) -> None:
    assert list(lines(Explanation("lake.refunds", None, ledger="lake.orders"))) == [
        "lake.refunds",
        "  read together with lake.orders",
    ]
    halted = Explanation("lake.refunds", Halt("lake.refunds", SpecError("why", hint="")), ledger="lake.orders")
    assert list(lines(halted)) == ["lake.refunds", "  halt: SpecError"]


def test_the_tables_of_a_group_are_one_run_and_are_previewed_one_by_one(specs: tuple[TableSpec, ...]) -> None:
    alone = replace(specs[0], table="trades", group=None)

    group, trades = table_runs(cast(Any, None), (*specs, alone))

    assert [table.identifier for table in group.tables] == ["lake.orders", "lake.refunds"]
    assert [run.spec.table for run in group.of_each_table()] == ["orders", "refunds"]
    assert [run.spec.table for run in trades.of_each_table()] == ["trades"]


def test_a_table_that_was_removed_from_its_group_does_not_become_the_first(tmp_path: Path) -> None:
    world = GroupWorld.at(tmp_path)
    world.send("order", "refund")
    world.catch_up()
    world.send("order")
    world.catch_up(world.driver(*grouped(ROUTES[0])))

    with pytest.raises(SpecChangeError, match="holds the state of the group, so orders stays first"):
        world.driver(*grouped(*ROUTES[::-1])).batch()
