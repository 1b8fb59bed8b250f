"""A schema with findings of its own is compared with the table, too: one repair does not lead to the next finding."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from policed_tables import HASH, masked
from values_of_tables import spec
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.pause.pausing import excluded_schemas, pause_of
from frazil.materialize.preview.candidate import plan_schema
from frazil.model.change_events import ChangeEvents
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaType
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec
from tests.fakes.clients_in_memory import a_field, record

LONG_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}
DIGITS = "a decimal of 39 digits, more than 38"
IS_STRING = "is string in the writer's schema, the table has long"
BY_ID: dict[str, Any] = {"write": "upsert", "identity": ("id",), "on_tombstone": "dead_letter"}
WORDS: dict[SchemaType, str] = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))


def of(fields: list[dict[str, Any]], name: str = "Inner") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def items(*fields: dict[str, Any], name: str = "Inner") -> dict[str, Any]:
    return {"type": "array", "items": of(list(fields), name)}


def said(
    world: World,
    before: str,
    after: str,
    wanted: TableSpec | None = None,
    *,
    schema_format: SchemaType = "AVRO",
    of_key: bool = False,
) -> list[str]:
    """Return the findings of the plan, which are those of the next batch."""
    wanted = wanted or spec(value=WORDS[schema_format])
    subject = "orders-key" if of_key else "orders-value"
    world.registry.register(subject, before, schema_format=schema_format)
    world.table(wanted).create()
    schema = RegisteredSchema(UNREGISTERED, schema_format, after)
    plan = plan_schema(world.lake, world.registry, wanted, schema, of_key=of_key)

    world.registry.register(subject, after, schema_format=schema_format)
    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(wanted).batch()

    assert refused.value.findings == plan.findings
    assert (plan.changes, refused.value.always_pauses) == ((), False)
    return list(map(str, plan.findings))


def test_findings_of_all_stages_come_together(world: World) -> None:
    before = record(a_field("n"), a_field("lines", items(a_field("sku"), a_field("price", "double"))))
    time = {"type": "int", "logicalType": "time-millis"}
    lines = items(a_field("sku", "string"), a_field("price", LONG_DECIMAL), a_field("SKU", "int"))
    after = record(
        a_field("n", "string"), a_field("lines", lines), a_field("opens", time), a_field("kafka_offset", "string")
    )

    assert said(world, before, after, spec(readers=("spark",))) == [
        f"lines[].price: {DIGITS}",
        "lines[].SKU: sku and SKU differ only in case",
        f"n: {IS_STRING}",
        f"lines[].sku: {IS_STRING}",
        "lines[].SKU: differs only in letter case from the table's column sku",
        "kafka_offset: the name clashes with the metadata column kafka_offset",
        "opens: is a time, which Spark cannot read: write a timestamp, or remove spark from `readers`",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        LONG_DECIMAL,
        {"type": "fixed", "name": "F", "size": 0},
        of([a_field("self", "Endless")], "Endless"),
        {"type": "array", "items": LONG_DECIMAL},
        {"type": "map", "values": LONG_DECIMAL},
        ["null", LONG_DECIMAL],
    ],
)
def test_a_field_that_no_column_holds_has_one_finding(world: World, bad: object) -> None:
    """The identity, the order and the partition are there; only the type of the field is to be repaired."""
    inner = {"array": {"type": "array", "items": "long"}, "map": {"type": "map", "values": "long"}}
    kind = str(bad["type"]) if isinstance(bad, dict) else ""
    before = record(a_field("id"), a_field("at"), a_field("x", inner.get(kind, "double")))
    wanted = spec(**BY_ID, order_by="at")

    found = said(world, before, record(a_field("id"), a_field("at"), a_field("x", bad)), wanted)

    paths = [each.partition(":")[0] for each in found]
    assert paths == {"record": ["x.self", "x"], "array": ["x[]"], "map": ["x{}"]}.get(kind, ["x"])


@pytest.mark.parametrize("name", ["id", "at", "day"])
@pytest.mark.parametrize("to", ["{}", "{}2"])
def test_a_deciding_column_of_no_type_is_not_missing(world: World, name: str, to: str) -> None:
    wanted = spec(**BY_ID, order_by="at", partition_by=("day",))
    fields = {each: a_field(each) for each in ("id", "at", "day", "n")}
    renamed = to.format(name)
    changed = fields | {name: a_field(renamed, LONG_DECIMAL, *([name] if renamed != name else []))}
    changed["n"] = a_field("n", "string")

    found = said(world, record(*fields.values()), record(*changed.values()), wanted)

    assert found == [f"{renamed}: {DIGITS}", f"n: {IS_STRING}"]


def test_a_missing_order_is_found_beside_another_finding(world: World) -> None:
    before = record(a_field("id"), a_field("at"), a_field("n"))

    found = said(world, before, record(a_field("id"), a_field("n", LONG_DECIMAL)), spec(**BY_ID, order_by="at"))

    assert found == [f"n: {DIGITS}", "at: is missing, and orders the records of a key"]


@pytest.mark.parametrize(
    ("fields", "findings"),
    [
        (
            [a_field("n", "string"), a_field("N")],
            [
                "N: n and N differ only in case",
                f"n: {IS_STRING}",
                "N: differs only in letter case from the table's column n",
            ],
        ),
        (
            [a_field("N"), a_field("n", "string")],
            [
                "n: N and n differ only in case",
                "N: differs only in letter case from the table's column n",
                f"n: {IS_STRING}",
            ],
        ),
    ],
)
def test_a_clash_says_which_name_the_table_has(world: World, fields: list[dict[str, Any]], findings: list[str]) -> None:
    assert said(world, record(a_field("n")), record(*fields)) == findings


def test_branches_that_are_one_column_name_it(world: World) -> None:
    branches = [of([a_field("x")], "a.b_c"), of([a_field("y")], "a_b.c"), of([a_field("z")], "x.b_c")]
    branches.append(of([a_field("z")], "x.c"))
    after = record(a_field("n", "string"), a_field("u", ["null", *branches]))

    assert said(world, record(a_field("n")), after) == [
        "u.a_b_c: the branches a.b_c and a_b.c would both be the column a_b_c",
        f"n: {IS_STRING}",
    ]


def test_fields_beyond_the_limit_of_columns_have_no_type(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = record(a_field("n"), a_field("id"), a_field("at"))
    many = (a_field(f"f{number}", "boolean") for number in range(5))
    after = record(a_field("n", "string"), *many, a_field("at"), a_field("id", "string"))
    monkeypatch.setattr("frazil.formats.avro.shape.MAX_COLUMNS", 5)

    found = said(world, before, after, spec(**BY_ID, order_by="at"))

    assert found == ["f4: more than 5 columns", f"n: {IS_STRING}"]


def test_policies_are_applied_to_what_could_be_mapped(world: World) -> None:
    wanted = masked({"email": HASH, "tags[]": HASH}, readers=())
    before = record(a_field("n"), a_field("email", "string"), a_field("tags", {"type": "array", "items": "string"}))
    after = record(
        a_field("n", LONG_DECIMAL),
        a_field("email", "double"),
        a_field("tags", {"type": "fixed", "name": "F", "size": 0}),
    )

    n, tags, email = said(world, before, after, wanted)

    assert (n, tags) == (f"n: {DIGITS}", "tags: a fixed of 0 bytes")
    assert email.startswith("email: has the type double, which cannot be hashed")


def test_a_second_column_for_another_type_is_none_of_no_type(world: World) -> None:
    wanted = spec(on_incompatible_schema="new_column", partition_by=("n",))

    assert said(world, record(a_field("n")), record(a_field("n", LONG_DECIMAL)), wanted) == [f"n: {DIGITS}"]


def test_a_strict_table_compares_what_could_be_mapped(world: World) -> None:
    before = record(a_field("n"), a_field("gone"), a_field("x"))
    wanted = spec(evolution="strict")
    world.values.append(framed(1, before, {"n": 1, "gone": 1, "x": 1}))
    world.registry.register("orders-value", before)
    drained(world, wanted)

    assert said(world, before, record(a_field("n"), a_field("x", LONG_DECIMAL)), wanted) == [
        f"x: {DIGITS}",
        "gone: is gone: `evolution: strict`, after schema 1",
    ]


def test_what_the_table_and_confluent_refuse_is_said_once(world: World) -> None:
    before, wanted = record(a_field("n"), a_field("m")), spec(evolution="strict")
    world.registry.register("orders-value", before)
    world.values.append(framed(1, before, {"n": 1, "m": 1}))
    drained(world, wanted)

    after = record(a_field("m", "string"), a_field("n", ["null", "string"]), a_field("N", ["null", "string"]))

    assert said(world, before, after, wanted) == [
        "N: n and N differ only in case",
        f"m: {IS_STRING}",
        f"n: {IS_STRING}",
        "N: differs only in letter case from the table's column n",
        "n: comes before a field that it followed in the former schema: `evolution: strict`, after schema 1",
    ]


def test_findings_of_keys_begin_with_the_column(world: World) -> None:
    wanted = spec(key="avro")
    world.registry.register("orders-value", record(a_field("n")))

    found = said(
        world, record(a_field("a"), a_field("b")), record(a_field("a", LONG_DECIMAL), a_field("b", "string")), wanted,
        of_key=True,
    )  # fmt: skip

    assert found == [f"kafka_key.a: {DIGITS}", f"kafka_key.b: {IS_STRING}"]


def test_a_key_that_is_no_record_has_the_column_as_its_path(world: World) -> None:
    world.registry.register("orders-value", record(a_field("n")))

    found = said(world, json.dumps("long"), json.dumps(LONG_DECIMAL), spec(key="avro"), of_key=True)

    assert found == [f"kafka_key: {DIGITS}"]


def test_a_json_schema_shows_all_findings(world: World) -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(70):
        deep = {"type": "object", "properties": {"x": deep}}
    before = {"n": number, "lines": {"type": "array", "items": {"properties": {"sku": number}}}, "x": deep}
    lines = {"type": "array", "items": {"properties": {"sku": text, "SKU": number}}}
    deep_in_map = {"type": "object", "additionalProperties": deep}

    found = said(
        world,
        json.dumps({"properties": {**before, "x": number}}),
        json.dumps({"properties": {"n": text, "lines": lines, "x": deep_in_map, "_extra": number}}),
        schema_format="JSON",
    )

    assert [each for each in found if "nested" not in each] == [
        "lines[].SKU: sku and SKU differ only in case",
        "_extra: takes the name of the column of undeclared fields, _extra",
        f"n: {IS_STRING}",
        f"lines[].sku: {IS_STRING}",
        "lines[].SKU: differs only in letter case from the table's column sku",
        next(each for each in found if each.startswith("x: is map<string, struct<x: ")),
    ]
    assert len(found) == 7


def test_a_protobuf_schema_shows_all_findings(world: World) -> None:
    head = 'syntax = "proto2"; import "confluent/type/decimal.proto"; message Row { '
    line = "message Line { optional %s sku = 1; optional %s price = 2; } "
    fields = "optional %s n = 1; repeated Line lines = 2; map<string, Line> by_name = 3; "

    found = said(
        world,
        head + line % ("int64", "double") + fields % "int64" + "}",
        head
        + line % ("string", "confluent.type.Decimal")
        + fields % "string"
        + "optional group Grp = 4 { optional int32 x = 1; } }",
        schema_format="PROTOBUF",
    )

    no_precision = (
        "a confluent.type.Decimal without a precision: set params precision and scale in confluent.field_meta"
    )
    assert found == [
        f"lines[].price: {no_precision}",
        f"by_name{{}}.price: {no_precision}",
        "grp: a group, which is not supported: use a message",
        f"n: {IS_STRING}",
        f"lines[].sku: {IS_STRING}",
        f"by_name{{}}.sku: {IS_STRING}",
    ]


def test_a_paused_table_has_every_finding(world: World) -> None:
    before, after = record(a_field("n"), a_field("x")), record(a_field("n", "string"), a_field("x", LONG_DECIMAL))
    found = said(world, before, after)

    view = world.lake.load("lake.orders")
    assert view is not None
    pause = pause_of(view.properties)
    assert pause is not None
    assert [each for each in found if each not in pause.why] == []


def test_a_registered_schema_with_findings_makes_no_change_of_the_plan(world: World) -> None:
    before, bad = record(a_field("n")), record(a_field("n", "string"), a_field("k"), a_field("x", LONG_DECIMAL))
    said(world, before, bad)

    schema = RegisteredSchema(UNREGISTERED, "AVRO", record(a_field("n"), a_field("k", "string")))
    plan = plan_schema(world.lake, world.registry, spec(), schema, of_key=False)

    assert (plan.pending, plan.findings) == ((), ())
    assert list(map(str, plan.changes)) == ["add column k: string"]


def test_a_new_table_shows_all_findings_of_its_schema(world: World) -> None:
    time = {"type": "int", "logicalType": "time-millis"}
    world.registry.register(
        "orders-value", record(a_field("x", LONG_DECIMAL), a_field("opens", time), a_field("kafka_offset"))
    )

    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(spec(readers=("spark",))).create()

    assert [each.path for each in refused.value.findings] == ["x", "kafka_offset", "opens"]


def test_a_change_event_is_compared_by_what_could_be_mapped(world: World) -> None:
    def envelope(*fields: dict[str, Any]) -> str:
        images = [a_field("before", ["null", of(list(fields), "Value")]), a_field("after", ["null", "Value"])]
        return record(*images, a_field("op", "string"), a_field("ts_ms", ["null", "long"]))

    wanted = spec(write="upsert", on_tombstone="delete", readers=())
    wanted = replace(wanted, value_settings=replace(wanted.value_settings, change_events=ChangeEvents()))
    before, after = (
        envelope(a_field("id"), a_field("n")),
        envelope(a_field("id", LONG_DECIMAL), a_field("n", "string")),
    )

    assert said(world, before, after, wanted) == [f"before.id: {DIGITS}", f"after.id: {DIGITS}", f"n: {IS_STRING}"]


def test_records_of_a_schema_that_no_table_can_hold_become_dead_letters(world: World) -> None:
    """None of them could be a row, so the missing order does not matter."""
    wanted = spec(**BY_ID, order_by="at", on_incompatible_schema="dead_letter")
    before, after = (record(a_field("id"), each) for each in (a_field("at"), a_field("x", LONG_DECIMAL)))
    world.registry.register("orders-value", before)
    world.table(wanted).create()
    newest = world.registry.register("orders-value", after)

    drained(world, wanted)

    view = world.lake.load("lake.orders")
    assert view is not None and pause_of(view.properties) is None
    assert excluded_schemas(view.properties).values == {newest.id}


def test_another_message_in_front_decides_whatever_is_wrong_with_it(world: World) -> None:
    """The rows could be kept: by `message` in the spec."""
    wanted = spec(value="protobuf", on_incompatible_schema="dead_letter")
    head, order = 'syntax = "proto2"; package shop; ', "message Order { optional int64 n = 1; } "
    other = "message Other { optional group Grp = 1 { optional int32 x = 1; } } "
    first = world.registry.register("orders-value", head + order, schema_format="PROTOBUF")
    world.values.append(struct.pack(">bI", 0, first.id) + b"\x00\x08\x01")
    drained(world, wanted)
    world.registry.register("orders-value", head + other + order, schema_format="PROTOBUF")

    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(wanted).batch()

    assert [each.path for each in refused.value.findings] == ["grp", ""]
    assert refused.value.always_pauses and "message: shop.Order" in (refused.value.hint or "")
