"""Tags of schemas: wherever a tag is in the schema of a value, a policy by tag masks the value or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.formats.open import map_schema
from frazil.model.columns import walk
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.policies import Policies, Policy
from frazil.model.schemas import RegisteredSchema, SchemaType
from frazil.model.spec import FormatSettings

TAG = {"confluent:tags": ["PII"]}
TEXT = {"type": "string", **TAG}
BY_TAG = FormatSettings(policies=Policies(tags=(("PII", Policy("redact")), ("PUBLIC", Policy("none")))))


def masks(form: SchemaType, schema: Any, settings: FormatSettings = BY_TAG) -> dict[str, str]:
    """Return the mask of each column; raises if a policy is refused."""
    mapped = map_schema(RegisteredSchema(1, form, json.dumps(schema)), settings)
    assert not mapped.findings, mapped.findings
    return {column.name: column.mask for column in mapped.columns}


def refusals(form: SchemaType, schema: Any) -> dict[str, str]:
    return {
        each.path: each.problem for each in map_schema(RegisteredSchema(1, form, json.dumps(schema)), BY_TAG).findings
    }


def avro(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, *fields], **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A"], **TAG}
AVRO_TYPES: dict[str, Any] = {
    "a type": TEXT,
    "a branch": ["null", TEXT],
    "a branch of several": ["null", "int", TEXT],
    "null": [{"type": "null", **TAG}, "string"],
    "an array": {"type": "array", "items": "string", **TAG},
    "items": {"type": "array", "items": TEXT},
    "items of items": {"type": "array", "items": {"type": "array", "items": TEXT}},
    "values": {"type": "map", "values": TEXT},
    "an enum": ENUM,
    "items of an enum": {"type": "array", "items": ENUM},
    "a fixed": {"type": "fixed", "name": "F", "size": 2, **TAG},
    "a logical type": {"type": "int", "logicalType": "date", **TAG},
    "around an enum": {"type": {"type": "enum", "name": "E", "symbols": ["A"]}, **TAG},
    "a record": {"type": "record", "name": "S", "fields": [{"name": "x", "type": "string"}], **TAG},
}


@pytest.mark.parametrize("avro_type", AVRO_TYPES.values(), ids=AVRO_TYPES)
def test_a_tag_of_an_avro_type_masks_the_field(avro_type: Any) -> None:
    schema = avro({"name": "x", "type": avro_type})
    tagged = {
        column.name: column.tags for column in map_schema(RegisteredSchema(1, "AVRO", json.dumps(schema))).columns
    }

    assert tagged == {"n": (), "x": ("PII",)}


def test_a_use_of_a_tagged_avro_type_is_tagged_and_so_is_the_use_alone() -> None:
    plain = {"type": "enum", "name": "E", "symbols": ["A"]}
    used = avro({"name": "x", "type": ENUM}, {"name": "y", "type": ["null", "E"]})
    alone = avro({"name": "x", "type": plain}, {"name": "y", "type": {"type": "E", **TAG}})

    assert masks("AVRO", used) == {"n": "", "x": "redact", "y": "redact"}
    assert masks("AVRO", alone) == {"n": "", "x": "", "y": "redact"}


def test_tags_of_an_avro_root_mask_every_column() -> None:
    assert masks("AVRO", TEXT) == {"value": "redact"}
    assert masks("AVRO", {"type": avro(), **TAG}) == {"n": "redact"}
    assert masks("AVRO", {"type": "array", "items": TEXT}) == {"value": "redact"}


def test_definitions_that_differ_in_their_tags_are_refused() -> None:
    fields = ({"name": "x", "type": {**ENUM, "confluent:tags": []}}, {"name": "y", "type": ENUM})

    with pytest.raises(IncompatibleSchemaError, match="E is defined twice, differently"):
        masks("AVRO", avro(*fields))


@pytest.mark.parametrize("given", [{"PII": True}, 1, ["PUBLIC", 1]])
def test_tags_that_cannot_be_read_are_refused_only_where_policies_go_by_tags(given: Any) -> None:
    fields: list[tuple[SchemaType, Any]] = [
        ("AVRO", avro({"name": "x", "type": "string", "confluent:tags": given})),
        ("JSON", {"type": "object", "properties": {"x": {"type": "string", "confluent:tags": given}}}),
    ]
    for form, schema in fields:
        problem = refusals(form, schema)["x"]
        assert (
            problem == "has confluent:tags that are neither a text nor a list of texts: give it a policy in `columns`"
        )
        assert masks(form, schema, FormatSettings())["x"] == ""


def test_one_text_is_one_tag() -> None:
    assert masks("AVRO", avro({"name": "x", "type": "string", "confluent:tags": "PII"})) == {"n": "", "x": "redact"}
    found = refusals("JSON", {"type": "object", "properties": {"x": {"type": "string", "confluent:tags": "PII"}}})
    assert found.keys() == {"_extra"}


def of_object(raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": "integer"}, "x": raw}, **more}


STRING = {"type": "string"}
JSON_SCHEMAS: dict[str, dict[str, Any]] = {
    "a property": of_object(TEXT),
    "one text": of_object({**STRING, "confluent:tags": "PII"}),
    "a reference": of_object({"$ref": "#/$defs/t"}, **{"$defs": {"t": TEXT}}),
    "beside a reference": of_object({"$ref": "#/$defs/t", **TAG}, **{"$defs": {"t": STRING}}),
    "a branch": of_object({"oneOf": [{"type": "null"}, TEXT]}),
    "the branch of null": of_object({"oneOf": [{"type": "null", **TAG}, STRING]}),
    "one of two branches": of_object({"oneOf": [{**STRING, "maxLength": 3}, TEXT]}),
    "a part": of_object({"allOf": [STRING, TAG]}),
    "a condition": of_object({**STRING, "if": {"maxLength": 3}, "then": TAG}),
    "items": of_object({"type": "array", "items": TEXT}),
    "items twelve levels down": of_object(json.loads('{"type": "array", "items": ' * 12 + json.dumps(TEXT) + "}" * 12)),
    "values": of_object({"type": "object", "additionalProperties": TEXT}),
    "values by pattern": of_object({"type": "object", "patternProperties": {"^a": TEXT}}),
    "contains": of_object({"type": "array", "items": STRING, "contains": TAG}),
    "a property of an alternative": of_object(STRING, oneOf=[{"properties": {"x": TAG}}, {"required": ["n"]}]),
    "a property of a condition": of_object(STRING, **{"if": {}, "then": {"properties": {"x": TAG}}}),
    "a property of a dependency": of_object(STRING, dependentSchemas={"n": {"properties": {"x": TAG}}}),
    "a property by pattern": of_object(STRING, patternProperties={"^x$": TAG}),
    "a property by a pattern that cannot be read": of_object(STRING, patternProperties={r"(?=y)": TAG}),
    "a property by a pattern with another meaning": of_object(STRING, patternProperties={r"\sy": TAG}),
}


@pytest.mark.parametrize("schema", JSON_SCHEMAS.values(), ids=JSON_SCHEMAS)
def test_a_tag_in_the_json_schema_of_a_property_is_a_tag_of_its_column(schema: dict[str, Any]) -> None:
    mapped = map_schema(RegisteredSchema(1, "JSON", json.dumps(schema)))
    tagged = {column.name: column.tags for column in mapped.columns if column.name != "n"}

    assert tagged == {"x": ("PII",), "_extra": ()}


INNER = {"type": "object", "properties": {"y": STRING}}
TAGGED_INNER = {"properties": {"y": TAG}}


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (INNER, TAGGED_INNER),
        ({"type": "array", "items": INNER}, {"items": TAGGED_INNER}),
        ({"type": "object", "additionalProperties": INNER}, {"additionalProperties": TAGGED_INNER}),
        ({"type": "object", "additionalProperties": INNER}, {"patternProperties": {"^properties$": TAGGED_INNER}}),
    ],
)
def test_a_condition_gives_a_tag_to_what_is_inside_a_property(kind: dict[str, Any], condition: dict[str, Any]) -> None:
    schema = of_object(kind, dependentSchemas={"items": {"properties": {"x": condition}}})
    mapped = map_schema(RegisteredSchema(1, "JSON", json.dumps(schema)))

    assert {path.rpartition(".")[2]: column.tags for path, column in walk(mapped.columns)}["y"] == ("PII",)


@pytest.mark.timeout(60)
def test_patterns_and_conditions_take_no_longer_than_the_schema_is() -> None:
    """A search of each pattern in each name took minutes, and one that tries all ways to match had no end."""
    names = [f"{'a' * 40}{n}!" for n in range(1_000)]
    conditions = [{"if": {"properties": {name: {"const": "x"}}}, "then": {"required": [name]}} for name in names]
    patterns = {f"^(a+)+b{n}$": TAG for n in range(1_000)} | {"a999!$": TAG}
    schema = of_object(STRING, patternProperties=patterns, allOf=conditions)
    schema["properties"] |= dict.fromkeys(names, STRING)

    mapped = map_schema(RegisteredSchema(1, "JSON", json.dumps(schema)))
    assert [each.name for each in mapped.columns if each.tags and each.name != "_extra"] == [f"{'a' * 40}999_"]


def test_a_tag_is_that_of_its_own_property_only() -> None:
    beside = of_object(STRING, additionalProperties=TEXT, **{"$defs": {"t": TEXT}})
    inner = of_object({"type": "object", "properties": {"y": TEXT}})
    default = of_object({**STRING, "default": TAG, "examples": [TAG]})

    for schema in (beside, inner, default):
        mapped = map_schema(RegisteredSchema(1, "JSON", json.dumps(schema)))
        assert all(column.tags == () for column in mapped.columns)


def test_tags_of_a_json_root_mask_every_column() -> None:
    assert masks("JSON", TEXT) == {"value": "redact"}
    assert masks("JSON", {"type": "array", "items": TEXT}) == {"value": "redact"}
    assert refusals("JSON", of_object(STRING, **TAG)).keys() == {"_extra"}


def test_a_schema_that_refers_to_itself_has_the_tags_of_its_items() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}, **TAG}
    mapped = map_schema(
        RegisteredSchema(1, "JSON", json.dumps(of_object({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": tree}})))
    )

    assert {column.name: column.tags for column in mapped.columns} == {"n": (), "x": ("PII",), "_extra": ()}


def test_a_tag_does_not_keep_json_text() -> None:
    anything = {"confluent:tags": ["PUBLIC"]}

    assert refusals("JSON", of_object(anything)).keys() == {"x", "_extra"}


def test_a_path_inside_json_text_decides_nothing_about_it() -> None:
    settings = FormatSettings(policies=Policies((("x[].y", Policy("redact")), ("_extra", Policy("redact")))))
    mapped = map_schema(RegisteredSchema(1, "JSON", json.dumps(of_object({"type": "array"}))), settings)

    assert [each.path for each in mapped.findings] == ["x"]
