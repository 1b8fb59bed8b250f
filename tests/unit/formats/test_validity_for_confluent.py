"""The schemas that Confluent's checker refuses by themselves, by its rules: `frazil/formats/validity.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.cli.validity_page import EXAMPLES, Example, refused
from frazil.formats.open import invalid_for_confluent
from frazil.formats.validity import Rule
from frazil.model.schemas import Reference, RegisteredSchema, SchemaType
from tests.fakes.clients_in_memory import a_field, record

PROTO = 'syntax = "proto3"; message Row { %s }'


def found(schema_type: SchemaType, text: str) -> list[tuple[Rule, str]]:
    return [(each.rule, each.path) for each in invalid_for_confluent(RegisteredSchema(1, schema_type, text))]


def an_object(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties})


def test_each_rule_has_an_example() -> None:
    assert {each.rule for each in EXAMPLES} == set(Rule)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each.rule}-{each.schema_type}")
def test_a_schema_that_a_lenient_table_holds_is_refused_by_its_rule_alone(example: Example) -> None:
    assert refused(example)


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("AVRO", record(a_field("a", {"type": "long", "logicalType": "timestamp-micros", "flink.precision": 3}))),
        ("AVRO", record(a_field("a", {"type": "long", "logicalType": "timestamp-nanos", "flink.precision": 6}))),
        ("AVRO", record(a_field("a", ["null", "int", "string"]), a_field("b", {"type": "map", "values": "long"}))),
        ("AVRO", record(a_field("a", {"type": "bytes", "logicalType": "decimal", "precision": 9}))),
        ("AVRO", record(a_field("a", {"type": "string", "flink.maxLength": 0}))),
        ("PROTOBUF", PROTO % "optional int32 a = 1; repeated P p = 2; message P { int32 x = 1; }"),
        ("PROTOBUF", PROTO % "oneof o { int32 a = 1; string b = 2; } map<string, int64> m = 3;"),
        ("JSON", an_object(a={"type": ["null", "string"]}, b={"anyOf": [{"type": "null"}, {"type": "integer"}]})),
        ("JSON", an_object(a={"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}})),
        ("JSON", an_object(a={"type": "string", "enum": ["in transit"]})),
        ("JSON", an_object(b={"type": "array", "items": {"type": "number"}})),
        ("JSON", an_object(a={"allOf": [{"type": "object", "properties": {"b": {"type": "string"}}}]})),
    ],
)  # fmt: skip
def test_a_schema_without_these_is_accepted(schema_type: SchemaType, text: str) -> None:
    assert found(schema_type, text) == []


def test_every_finding_has_its_path_and_a_type_that_is_used_twice_is_judged_once() -> None:
    empty = {"type": "record", "name": "E", "fields": []}
    nanos = {"type": "array", "items": {"type": "long", "logicalType": "timestamp-nanos"}}
    text = record(a_field("a", empty), a_field("b", "E"), a_field("c", {"type": "map", "values": nanos}))

    assert found("AVRO", text) == [(Rule.EMPTY_STRUCT, "a"), (Rule.UNREPRESENTABLE_TYPE, "c{}[]")]


def test_types_of_a_reference_and_of_a_namespace_are_found() -> None:
    part = json.dumps({"type": "record", "name": "Part", "namespace": "n", "fields": [a_field("x", ["null", "Part"])]})
    text = json.dumps({"type": "record", "name": "Row", "namespace": "n", "fields": [a_field("a", "Part")]})
    schema = RegisteredSchema(1, "AVRO", text, (Reference("n.Part", part),))

    assert [(each.rule, each.path) for each in invalid_for_confluent(schema)] == [(Rule.CYCLIC_TYPE, "a")]


def test_a_type_that_only_leads_to_a_recursive_one_is_not_called_recursive() -> None:
    node = {"type": "record", "name": "Node", "fields": [a_field("next", ["null", "Node"])]}

    assert found("AVRO", record(a_field("a", node), a_field("b", "Node"))) == [
        (Rule.CYCLIC_TYPE, "a"),
        (Rule.CYCLIC_TYPE, "b"),
    ]
