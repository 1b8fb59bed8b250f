"""`evolution: strict`: whole batches over a topic in memory, and the rules that need more than one schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.open import map_schema
from frazil.materialize.outcome import Again, Published
from frazil.materialize.preview.candidate import plan_schema
from frazil.materialize.schema.strictness import strict_findings
from frazil.materialize.schema.succession import NEWEST, Accepted, refused_if_strict
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaType, VersionNumber
from frazil.model.settings import CatalogSettings
from frazil.model.spec import SubjectSettings
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(evolution="strict")
FIRST = record(a_field("n"), a_field("m"))
ITEMS = {"type": "array", "items": "long"}
LIST = a_field("l", ITEMS)
WITHOUT_M = record(a_field("n"))
WITH_NOTE = record(a_field("n"), a_field("m"), a_field("note", ["null", "string"]))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", FIRST)
    made.values.append(framed(1, FIRST, {"n": 1, "m": 2}))
    assert isinstance(made.table(SPEC).batch(), Published)
    return made


def refused(world: World) -> str:
    with pytest.raises(IncompatibleSchemaError) as error:
        table = world.table(SPEC)
        while isinstance(table.batch(), Again):
            pass
    return error.value.what


def test_a_schema_that_lacks_a_field_pauses_the_table_and_is_accepted_without_the_setting(world: World) -> None:
    world.registry.register("orders-value", WITHOUT_M)
    world.values.append(framed(2, WITHOUT_M, {"n": 3}))

    (checked,) = world.check(SPEC)
    what = refused(world)

    assert "1 finding:\n  - m: is gone: `evolution: strict`, after schema 1" in what
    assert checked.what == what
    world.lake.set_properties(SPEC.identifier, put={}, remove=["frazil.paused"])
    assert isinstance(world.table(replace(SPEC, evolution="lenient")).batch(), Published)
    assert isinstance(world.table(replace(SPEC, evolution="lenient")).batch(), object)


def test_a_safe_change_is_followed(world: World) -> None:
    world.registry.register("orders-value", WITH_NOTE)
    world.values.append(framed(2, WITH_NOTE, {"n": 3, "m": 4, "note": None}))

    outcome = world.table(SPEC).batch()

    assert isinstance(outcome, Published)
    assert list(outcome.receipt.schema_changes) == ["add column note: string"]


def test_records_of_an_older_schema_are_compared_with_the_one_that_followed(world: World) -> None:
    """The table is made from the newest schema, and meets the others from the oldest on."""
    older = world.registry.register("another", record(a_field("n"), a_field("m"), a_field("gone"))).id
    world.registry.register("orders-value", WITH_NOTE)
    world.values.append(framed(3, WITH_NOTE, {"n": 3, "m": 4, "note": None}))
    assert isinstance(world.table(SPEC).batch(), Published)
    text = world.registry.schemas[older].text
    world.values.append(framed(older, text, {"n": 3, "m": 4, "gone": 5}))

    said = refused(world).splitlines()[1:]

    assert said == [
        "  - gone: is a new required field: make it optional: `evolution: strict`, after schema 1",
        "  - gone: is gone: `evolution: strict`, before schema 3",
    ]


def test_records_of_other_types_are_not_compared(world: World) -> None:
    several = replace(SPEC, value_subject=SubjectSettings("record"))
    other = record(a_field("o"), name="Other")
    world.registry.register("Other", other)
    world.values.append(framed(2, other, {"o": 1}))
    table = world.table(several)
    outcome = table.batch()
    while isinstance(outcome, Again):
        outcome = table.batch()

    assert isinstance(outcome, Published)


def test_plan_schema_refuses_the_same(world: World) -> None:
    plan = plan_schema(
        world.lake, world.registry, SPEC, RegisteredSchema(UNREGISTERED, "AVRO", WITHOUT_M), of_key=False
    )

    assert [str(each) for each in plan.findings] == ["m: is gone: `evolution: strict`, after schema 1"]


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
UNFIT = record(a_field("n"), a_field("m"), a_field("at", ["null", NANOS]))
REFUSED = "at: is a timestamp of 9 fractional digits: more than 6 need format version 3: `evolution: strict`,"


def test_a_schema_that_confluent_refuses_by_itself_pauses_the_table(world: World) -> None:
    world.registry.register("orders-value", UNFIT)
    world.values.append(framed(2, UNFIT, {"n": 3, "m": 4, "at": None}))

    (checked,) = world.check(SPEC)
    planned = plan_schema(world.lake, world.registry, SPEC, RegisteredSchema(UNREGISTERED, "AVRO", UNFIT), of_key=False)
    what = refused(world)

    assert f"1 finding:\n  - {REFUSED} UNREPRESENTABLE_TYPE" in what
    assert checked.what == what
    assert [str(each) for each in planned.findings] == [f"{REFUSED} UNREPRESENTABLE_TYPE"]
    world.lake.set_properties(SPEC.identifier, put={}, remove=["frazil.paused"])
    assert isinstance(world.table(replace(SPEC, evolution="lenient")).batch(), Again | Published)


def test_the_first_schema_of_a_table_is_judged_too(tmp_path: Path) -> None:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", UNFIT)
    made.values.append(framed(1, UNFIT, {"n": 1, "m": 2, "at": None}))

    assert f"1 finding:\n  - {REFUSED} UNREPRESENTABLE_TYPE" in refused(made)
    made.lake.set_properties(SPEC.identifier, put={}, remove=["frazil.paused"])
    assert isinstance(made.table(replace(SPEC, evolution="lenient")).batch(), Published)


def test_a_schema_that_the_table_has_columns_for_is_not_judged_again(tmp_path: Path) -> None:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", UNFIT)
    made.values.append(framed(1, UNFIT, {"n": 1, "m": 2, "at": None}))
    assert isinstance(made.table(replace(SPEC, evolution="lenient")).batch(), Published)

    made.values.append(framed(1, UNFIT, {"n": 3, "m": 4, "at": None}))

    assert isinstance(made.table(SPEC).batch(), Published)


def test_a_schema_of_keys_is_judged_by_itself() -> None:
    schema = RegisteredSchema(2, "AVRO", UNFIT)
    keyed = spec(evolution="strict", key="avro")

    (finding,) = refused_if_strict(keyed, schema, Accepted(), of_key=True)

    assert finding.path == f"{keyed.metadata.prefix}key.at"


IN_GLUE = spec(evolution="strict", wire_format="glue")


def a_version(number: int, schema_id: int, text: str, name: str = "orders") -> RegisteredSchema:
    """Return a version of a schema in AWS Glue. Its UUID says nothing of its order."""
    return RegisteredSchema(UUID(int=schema_id), "AVRO", text, version=VersionNumber(name, number))


def of_glue(schema: RegisteredSchema, *accepted: RegisteredSchema) -> list[str]:
    known = Accepted.of(accepted, [each.id for each in accepted])
    return [str(each) for each in refused_if_strict(IN_GLUE, schema, known, of_key=False)]


def test_versions_that_uuids_name_are_compared_by_their_numbers() -> None:
    first, third = a_version(1, 900, FIRST), a_version(3, 50, WITH_NOTE)

    assert of_glue(a_version(2, 7, WITHOUT_M), first) == [f"m: is gone: `evolution: strict`, after schema {first.id}"]
    assert of_glue(third, first) == []
    assert of_glue(
        a_version(2, 999, record(a_field("n"), a_field("m"), a_field("x", ["null", "int"]))), first, third
    ) == [f"x: is gone: `evolution: strict`, before schema {third.id}"]
    assert of_glue(a_version(10, 2, WITHOUT_M), first, a_version(9, 1, WITHOUT_M)) == []


def test_versions_of_another_schema_are_not_compared() -> None:
    assert of_glue(a_version(2, 7, WITHOUT_M, name="others"), a_version(1, 900, FIRST)) == []


def test_a_schema_that_is_not_registered_comes_after_the_newest_version() -> None:
    candidate = RegisteredSchema(UNREGISTERED, "AVRO", FIRST)
    newest = a_version(10, 2, WITH_NOTE)

    assert of_glue(candidate, newest, a_version(9, 900, FIRST)) == [
        f"note: is gone: `evolution: strict`, after schema {newest.id}"
    ]


def test_a_few_of_a_thousand_versions_are_looked_at() -> None:
    known = [a_version(number, 5000 - number, WITH_NOTE) for number in range(1, 1001) if number != 500]
    looked_at: list[int] = []

    def never(schema: RegisteredSchema) -> bool:
        assert schema.version is not None
        looked_at.append(schema.version.number)
        return False

    Accepted.of(known, [each.id for each in known]).around(a_version(500, 1, FIRST), never)

    assert looked_at == [*range(499, 499 - NEWEST, -1), *range(501, 501 + NEWEST)]


def test_schemas_that_numbers_name_are_not_compared_with_those_that_uuids_name() -> None:
    numbered = RegisteredSchema(4, "AVRO", WITHOUT_M)

    assert of_glue(numbered, a_version(1, 900, WITH_NOTE)) == []
    assert of_glue(a_version(1, 900, WITH_NOTE), numbered) == []


PROTO = 'syntax = "proto3"; message Row { int32 a = 1; %s }'


def an_object(required: str, **properties: object) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": [required]})


@pytest.mark.parametrize(
    ("schema_type", "before", "after", "found"),
    [
        ("PROTOBUF", PROTO % "", PROTO % "int32 b = 2;", ["b: is a new required field: make it optional"]),
        ("PROTOBUF", PROTO % "", PROTO % "optional int32 b = 2;", []),
        ("PROTOBUF", PROTO % "", PROTO % "repeated int32 b = 2; map<string, int32> c = 3; Row d = 4;", []),
        ("PROTOBUF", PROTO % "", PROTO % "oneof o { int32 b = 2; }", []),
        (
            "JSON",
            an_object("a", a={"type": "integer"}),
            an_object("b", a={"type": "integer"}, b={"type": "integer"}),
            ["b: is a new required field: make it optional"],
        ),
        (
            "JSON",
            an_object("a", a={"type": "integer"}),
            an_object("b", a={"type": "integer"}, b={"type": ["null", "integer"]}),
            [],
        ),
        (
            "JSON",
            an_object("a", a={"type": ["null", "integer"]}),
            an_object("a", a={"type": "integer"}),
            ["a: is required, and was optional in the former schema"],
        ),
    ],
)
def test_each_format_says_which_fields_are_required(
    schema_type: SchemaType, before: str, after: str, found: list[str]
) -> None:
    old, new = (map_schema(RegisteredSchema(1, schema_type, text)).columns for text in (before, after))

    assert [str(each) for each in strict_findings(old, new)] == found


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([], [LIST], ["l: is a new required field: make it optional"]),
        ([], [{**LIST, "default": []}], []),
        ([a_field("l", ["null", ITEMS])], [LIST], ["l: is required, and was optional in the former schema"]),
        ([a_field("l", ["null", ITEMS])], [{**LIST, "default": []}], []),
        ([{**LIST, "default": []}], [LIST], []),
        ([], [{**a_field("l", "long"), "default": 0}], ["l: is a new required field: make it optional"]),
    ],
)
def test_an_array_with_a_default_may_be_missing(before: list[Any], after: list[Any], found: list[str]) -> None:
    old, new = (
        map_schema(RegisteredSchema(1, "AVRO", record(a_field("n"), *each))).columns for each in (before, after)
    )

    assert [str(each) for each in strict_findings(old, new)] == found


@pytest.mark.parametrize(
    ("array", "found"),
    [({"default": []}, []), ({}, ["l: is a new required field: make it optional"])],
)
def test_a_required_array_of_a_json_schema_may_be_missing_with_a_default(
    array: dict[str, Any], found: list[str]
) -> None:
    number = {"type": "integer"}
    both = {"n": number, "l": {"type": "array", "items": number, **array}}
    texts = (
        json.dumps({"type": "object", "properties": properties, "required": [*properties]})
        for properties in ({"n": number}, both)
    )
    old, new = (map_schema(RegisteredSchema(1, "JSON", text)).columns for text in texts)

    assert [str(each) for each in strict_findings(old, new)] == found


def test_the_fields_of_a_json_schema_are_in_the_order_of_their_names() -> None:
    number = {"type": "integer"}
    wanted = spec(evolution="strict", value="json_schema")
    inside = {"type": "object", "properties": {"y": number, "x": number}}
    before = RegisteredSchema(1, "JSON", an_object("a", a=number, b=inside))
    again = {"type": "object", "properties": {"x": number, "y": number}}

    def found(text: str) -> list[str]:
        after = RegisteredSchema(2, "JSON", text)
        return [str(each) for each in refused_if_strict(wanted, after, Accepted.of([before], [1]), of_key=False)]

    assert found(an_object("a", b=again, a=number)) == []
    assert found(an_object("a", b={**again, "connect.index": 1}, a={**number, "connect.index": 2})) == [
        "a: comes before a field that it followed in the former schema: `evolution: strict`, after schema 1"
    ]


def test_fields_without_an_index_come_after_the_others_in_the_order_of_their_names() -> None:
    """What is compared is never the order of the text, which JSON does not have."""
    number, first = {"type": "integer"}, {"type": "integer", "connect.index": 0}
    wanted = spec(evolution="strict", value="json_schema")
    before = RegisteredSchema(1, "JSON", an_object("z", z=first, b=number, a=number))

    def found(text: str) -> list[str]:
        after = RegisteredSchema(2, "JSON", text)
        return [str(each) for each in refused_if_strict(wanted, after, Accepted.of([before], [1]), of_key=False)]

    assert found(an_object("z", a=number, b=number, z=first)) == []
    assert found(an_object("z", a=number, b=number, z=number)) == [
        "z: comes before a field that it followed in the former schema: `evolution: strict`, after schema 1"
    ]


def test_schemas_that_cannot_be_read_any_more_are_not_compared(world: World) -> None:
    """Others may delete what an accepted schema refers to: a new schema does not."""
    world.registry.schemas[1] = replace(world.registry.schemas[1], missing=("version 1 of part",))
    world.registry.register("orders-value", WITH_NOTE)
    world.values.append(framed(2, WITH_NOTE, {"n": 3, "m": 4, "note": None}))

    assert isinstance(world.table(SPEC).batch(), Published)
