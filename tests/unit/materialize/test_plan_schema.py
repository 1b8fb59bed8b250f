"""What a schema would change in a table before it is registered; `materialize` changes exactly that afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from policed_tables import HASH, masked
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.materialize.preview.candidate import SchemaPlan, lines, plan_schema
from frazil.model.errors import IncompatibleSchemaError, Misuse
from frazil.model.plan import NothingToDo
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaDefinition, SubjectVersion
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec
from frazil.schema_file import read_schema_file
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(readers=("snowflake", "athena"))
TIME = {"type": "int", "logicalType": "time-millis"}
NESTED = {"type": "record", "name": "Item", "fields": [a_field("sku", "string"), a_field("price", "double")]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values.append(framed(1, LONG, {"n": 1}))
    return made


def planned(world: World, text: str, wanted: TableSpec = SPEC, *, of_key: bool = False) -> SchemaPlan:
    schema = RegisteredSchema(UNREGISTERED, "AVRO", text)
    return plan_schema(world.lake, world.registry, wanted, schema, of_key=of_key)


def shown(world: World, text: str, wanted: TableSpec = SPEC) -> list[str]:
    return list(lines(planned(world, text, wanted)))


def filled(world: World, wanted: TableSpec = SPEC) -> None:
    run = world.table(wanted)
    while not isinstance(run.batch(), NothingToDo):
        pass


def test_the_changes_are_those_that_the_next_batch_makes(world: World) -> None:
    filled(world)
    renamed = record(a_field("m", "long", "n"), a_field("items", {"type": "array", "items": NESTED}))
    asked = len(world.registry.schemas)

    said = shown(world, renamed)

    assert said == [
        "lake.orders",
        "  rename n to m",
        "  add column items: list<struct<sku: string, price: double>>",
        "  snowflake, athena: n only under the name m; items as list<struct<sku: string, price: double>>, null in"
        " existing rows",
    ]
    assert len(world.registry.schemas) == asked
    world.registry.register("orders-value", renamed)
    world.values.append(framed(2, renamed, {"m": 2, "items": []}))
    run = world.table(SPEC)
    outcome = run.batch()
    assert isinstance(outcome, Published)
    assert list(outcome.receipt.schema_changes) == [line.strip() for line in said[1:3]]
    assert shown(world, renamed)[1:] == ["  no change of the table", "  snowflake, athena: no change"]


def test_a_mask_that_follows_a_rename_is_named(world: World) -> None:
    before, after = (
        record(a_field("n"), a_field(*named)) for named in (("email", "string"), ("mail", "string", "email"))
    )
    world.registry.register("orders-value", before)
    world.values[:] = [framed(2, before, {"n": 1, "email": "e"})]
    policed = masked({"email": HASH}, readers=())
    filled(world, policed)

    assert shown(world, after, policed)[:2] == ["lake.orders", "  rename email to mail, still masked: hash"]
    assert planned(world, after, policed).to_json()["changes"][0]["mask"] == "hash"


def test_json_has_the_changes_and_what_readers_see(world: World) -> None:
    filled(world)
    accepted = planned(world, record(a_field("m", "long", "n"), a_field("k", "int")))
    refused = planned(world, record(a_field("n", "string")))

    found = json.loads(json.dumps(accepted.to_json()))

    assert found == {
        "table": "lake.orders",
        "exists": True,
        "refused": False,
        "if_refused": None,
        "changes": [
            {"change": "rename", "path": "n", "new_name": "m"},
            {"change": "add", "path": "k", "type": "int", "doc": None},
        ],
        "findings": [],
        "notes": [],
        "readers": [
            {"readers": ["snowflake", "athena"], "sees": "n only under the name m; k as int, null in existing rows"}
        ],
        "without_this_schema": {"changes": [], "obstacles": []},
    }
    assert refused.to_json()["findings"] == [
        {"path": "n", "problem": "is string in the writer's schema, the table has long"}
    ]
    assert (refused.to_json()["refused"], refused.to_json()["changes"]) == (True, [])


def test_a_field_that_is_gone_keeps_its_column(world: World) -> None:
    filled(world)

    assert "  note: n: not in the newest schema: null in new rows" in shown(world, record(a_field("m", "string")))


@pytest.mark.parametrize(
    ("fields", "findings"),
    [
        ([a_field("n", "string")], ["n: is string in the writer's schema, the table has long"]),
        (
            [a_field("n", "string"), a_field("N"), a_field("kafka_offset")],
            ["n and N differ only in case"],
        ),
        (
            [a_field("items", {"type": "array", "items": {**NESTED, "fields": [a_field("sku", "long")]}})],
            ["items[].sku: is long in the writer's schema, the table has string"],
        ),
    ],
)
def test_every_reason_of_a_refusal_has_its_path(world: World, fields: list[Any], findings: list[str]) -> None:
    first = record(a_field("n"), a_field("items", {"type": "array", "items": NESTED}))
    world.registry.register("orders-value", first)
    filled(world)

    plan = planned(world, record(*fields))

    refused = plan.refusal("the schema in a.avsc")
    assert isinstance(refused, IncompatibleSchemaError)
    assert [each for each in findings if each not in refused.what] == [], refused.what
    assert plan.changes == ()
    assert refused.what.startswith("lake.orders: the schema in a.avsc is not a safe change for the table, ")
    assert list(lines(plan))[-1].startswith("  refused: the table would pause at the first record")


def test_what_is_refused_is_refused_by_the_next_batch_for_the_same_reasons(world: World) -> None:
    filled(world)
    bad = record(a_field("n", "string"), a_field("at", {"type": "fixed", "name": "F", "size": 0}))
    plan = planned(world, bad)

    world.registry.register("orders-value", bad)
    with pytest.raises(IncompatibleSchemaError) as said:
        world.table(SPEC).batch()

    assert plan.findings == said.value.findings


def test_a_spec_may_ask_for_dead_letters_instead_of_a_pause(world: World) -> None:
    bad = planned(world, record(a_field("n", "string")), spec(on_incompatible_schema="dead_letter"))

    assert list(lines(bad))[-1].startswith("  refused: all records with this schema would become dead letters")


def test_a_text_that_is_no_schema_is_refused(world: World) -> None:
    (finding,) = planned(world, "{").findings

    assert "not JSON" in finding.problem


def test_a_reader_without_the_type_refuses_the_schema(world: World) -> None:
    in_both = spec(readers=("spark",), formats=("iceberg", "delta"))

    assert planned(world, record(a_field("n"), a_field("opens", TIME))).findings == ()
    (spark,) = planned(world, record(a_field("n"), a_field("opens", TIME)), spec(readers=("spark",))).findings
    (delta,) = planned(world, record(a_field("opens", TIME)), spec(formats=("iceberg", "delta"))).findings

    assert (spark.path, delta.path) == ("opens", "opens")
    assert "Spark cannot read" in spark.problem
    assert "is a time of day, which Delta has no type for" in delta.problem
    both = planned(world, record(a_field("n"), a_field("opens", TIME)), in_both).findings
    assert [each.problem for each in both] == [spark.problem, delta.problem]


def test_delta_readers_wait_for_a_compaction_after_a_rename(world: World) -> None:
    in_both = spec(formats=("iceberg", "delta"), readers=())
    world.table(in_both).batch()

    (added,) = planned(world, record(a_field("n"), a_field("m")), in_both).readers
    (renamed,) = planned(world, record(a_field("m", "long", "n")), in_both).readers

    assert (added.readers, added.sees) == (("delta",), "m as long, null in existing rows")
    assert renamed.sees.startswith("no new rows until the files that the table has now are compacted, then n only")


def test_the_first_schema_of_a_topic_gives_the_table_its_columns(world: World) -> None:
    world.registry.subjects.clear()

    said = shown(world, record(a_field("n"), a_field("m", "string")))

    assert said[:3] == ["lake.orders (does not exist yet)", "  add column n: long", "  add column m: string"]


def test_what_registered_schemas_change_first_is_told_apart(world: World) -> None:
    filled(world)
    newest = record(a_field("n"), a_field("m"))
    world.registry.register("orders-value", newest)

    assert shown(world, newest)[1:3] == ["  without this schema: add column m: long", "  no change of the table"]

    world.registry.register("orders-value", record(a_field("n", "string")))
    halted = shown(world, record(a_field("n"), a_field("k")))
    assert halted[1].startswith(
        "  without this schema: halt: IncompatibleSchemaError: lake.orders: the writer schema 3"
    )
    assert "  add column k: long" in halted


def test_a_schema_of_keys_changes_the_key_column(world: World) -> None:
    keyed = spec(key="avro")
    world.registry.register("orders-key", json.dumps("string"))
    world.table(keyed).create()

    assert planned(world, json.dumps("string"), keyed, of_key=True).changes == ()
    (finding,) = planned(world, json.dumps("long"), keyed, of_key=True).findings

    assert str(finding) == "kafka_key: is long in the writer's schema, the table has string"


def test_a_file_is_a_schema_or_the_request_that_registers_it(tmp_path: Path) -> None:
    plain, request = tmp_path / "order.avsc", tmp_path / "request.json"
    plain.write_text(LONG)
    uses = [{"name": "shop.Item", "subject": "item", "version": 3}]
    request.write_text(json.dumps({"schemaType": "JSON", "schema": "{}", "references": uses}))

    assert read_schema_file(plain, "AVRO") == SchemaDefinition("AVRO", LONG)
    assert read_schema_file(request, "AVRO") == SchemaDefinition(
        "JSON", "{}", (SubjectVersion("shop.Item", "item", 3),)
    )
    request.write_text(json.dumps({"schema": LONG}))
    assert read_schema_file(request, "JSON") == SchemaDefinition("AVRO", LONG)
    request.write_text(json.dumps({"schema": LONG, "schemaType": None}))
    assert read_schema_file(request, "JSON") == SchemaDefinition("AVRO", LONG)
    plain.write_text("[" * 100_000)
    assert read_schema_file(plain, "AVRO") == SchemaDefinition("AVRO", "[" * 100_000)


@pytest.mark.parametrize("schema_type", ["XML", {"a": 1}])
def test_a_request_of_another_type_is_misuse(tmp_path: Path, schema_type: object) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"schema": LONG, "schemaType": schema_type}))

    with pytest.raises(Misuse, match="expected AVRO, PROTOBUF or JSON"):
        read_schema_file(file, "AVRO")


@pytest.mark.parametrize("references", [[{"name": "a"}], ["a"], 7, [{"name": "a", "subject": "b", "version": 1e999}]])
def test_a_reference_without_a_version_is_misuse(tmp_path: Path, references: object) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"schema": LONG, "references": references}))

    with pytest.raises(Misuse, match="a reference needs a name, a subject and a version"):
        read_schema_file(file, "AVRO")
    with pytest.raises(Misuse, match="could not read the schema"):
        read_schema_file(tmp_path / "nowhere", "AVRO")


def test_a_json_schema_says_what_changes_and_what_readers_see(world: World) -> None:
    wanted = spec(value="json_schema", readers=("snowflake",))
    fields = {"n": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    world.registry.register("orders-value", json.dumps({"properties": fields}), schema_format="JSON")
    world.values.clear()
    world.table(wanted).create()

    def planned_with(**more: object) -> SchemaPlan:
        text = json.dumps({"properties": {**fields, **more}})
        return plan_schema(
            world.lake, world.registry, wanted, RegisteredSchema(UNREGISTERED, "JSON", text), of_key=False
        )

    accepted = planned_with(to={"type": "object", "properties": {"city": {"type": "string"}}})
    refused = planned_with(n={"type": "number"}, at={"type": "string"})

    assert list(lines(accepted)) == [
        "lake.orders",
        "  add column to: struct<city: string>",
        "  snowflake: to as struct<city: string>, null in existing rows",
    ]
    assert list(map(str, refused.findings)) == [
        "n: is double in the writer's schema, the table has long",
        "at: is string in the writer's schema, the table has timestamptz",
    ]
