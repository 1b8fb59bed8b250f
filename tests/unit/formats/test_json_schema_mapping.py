"""Which columns a JSON Schema becomes, and which texts are no schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from json_samples import Json, fields
from printed_columns import assert_printed

from frazil.formats.json_schema.schema import Expanded, expand
from frazil.formats.json_schema.verdicts import DEFINITIONS, VERDICTS, Verdict
from frazil.formats.json_values.shape import columns_of
from frazil.formats.limits import MAX_COLUMNS, MAX_NESTING
from frazil.formats.mapped import LEFT_OUT
from frazil.formats.open import map_schema, open_decoder
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import Reference, RegisteredSchema, SchemaFinding
from frazil.model.spec import FormatSettings
from frazil.records import binary

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
DRAFT_4, DRAFT_2020 = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def expanded(schema: Json, **references: Json) -> Expanded:
    return expand(json.dumps(schema), [Reference(name, json.dumps(each)) for name, each in references.items()])


def types_of(schema: Json, **references: Json) -> dict[str, str]:
    return {each.name: str(each.type) for each in columns_of(expanded(schema, **references).row)}


def type_of(schema: Json, **more: Any) -> str | None:
    return types_of({**fields(f=schema), **more}).get("f")


def problems_of(schema: Json, **references: Json) -> str:
    with pytest.raises(IncompatibleSchemaError) as refused:
        expanded(schema, **references)
    return refused.value.what


@pytest.mark.parametrize("verdict", VERDICTS, ids=[each.schema for each in VERDICTS])
def test_each_kind_of_schema_becomes_the_column_of_its_verdict(verdict: Verdict) -> None:
    found = [type_of(schema, definitions=DEFINITIONS) for schema, _ in verdict.examples]

    assert [(each or "") for each in found] == [column for _, column in verdict.examples]
    assert_printed(verdict.column, filter(None, found))


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (fields(a=INTEGER), {"a": "long", "_extra": "string"}),
        ({"type": "object"}, {"_extra": "string"}),
        ({"properties": {"a": INTEGER}}, {"a": "long", "_extra": "string"}),
        ({"type": "object", "additionalProperties": INTEGER}, {"value": "map<string, long>"}),
        ({"type": "array", "items": INTEGER}, {"value": "list<long>"}),
        ({"type": "array", "items": fields(a=INTEGER)}, {"value": "list<struct<a: long>>", "_extra": "string"}),
        (TEXT, {"value": "string"}),
        ({"oneOf": [fields(a=INTEGER), fields(b=TEXT)]}, {"value": "string"}),
        ({"oneOf": [{"type": "null"}, fields(a=INTEGER)]}, {"a": "long", "_extra": "string"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": fields(a=INTEGER)}}, {"a": "long", "_extra": "string"}),
        ({**fields(a=INTEGER), "patternProperties": {"^x": TEXT}}, {"a": "long", "_extra": "string"}),
        (True, {"value": "string"}),
    ],
)
def test_an_object_is_a_row_and_any_other_value_one_column(schema: Json, columns: dict[str, str]) -> None:
    assert types_of(schema) == columns


def test_formats_are_texts_if_the_spec_says_so() -> None:
    schema = RegisteredSchema(1, "JSON", json.dumps(fields(at={"type": "string", "format": "date-time"})))
    settings = FormatSettings(string_formats="text")

    rows = open_decoder(schema, settings).decode(binary([b'{"at":"soon"}'])).rows

    assert str(map_schema(schema, settings).columns[0].type) == "string"
    assert rows.column("at").to_pylist() == ["soon"]


@pytest.mark.parametrize(
    ("ref", "around"),
    [
        ("#/definitions/A", {"definitions": {"A": INTEGER}}),
        ("#/$defs/a~1b%20c", {"$defs": {"a/b c": INTEGER}}),
        ("#/definitions/list/1", {"definitions": {"list": [TEXT, INTEGER]}}),
        ("#here", {"definitions": {"A": {**INTEGER, "$id": "#here"}}}),
        ("#here", {"$schema": DRAFT_4, "definitions": {"A": {**INTEGER, "id": "#here"}}}),
        ("#here", {"$schema": DRAFT_2020, "$defs": {"A": {**INTEGER, "$anchor": "here"}}}),
        ("other.json", {"$id": "http://example.com/root.json", "$defs": {"A": {**INTEGER, "$id": "other.json"}}}),
        ("http://example.com/other.json", {"$defs": {"A": {**INTEGER, "$id": "http://example.com/other.json"}}}),
        ("other.json#/x", {"$defs": {"A": {"$id": "other.json", "x": INTEGER}}}),
        ("root.json#/$defs/A", {"$id": "http://example.com/root.json", "$defs": {"A": INTEGER}}),
    ],
)
def test_a_reference_leads_into_the_schema(ref: str, around: Json) -> None:
    assert type_of({"$ref": ref}, **around) == "long"


@pytest.mark.parametrize(
    ("ref", "around", "name", "document"),
    [
        ("address.json", {}, "address.json", INTEGER),
        ("address.json#/definitions/A", {}, "address.json", {"definitions": {"A": INTEGER}}),
        ("http://example.com/a.json", {}, "http://example.com/a.json", INTEGER),
        ("a.json", {"$id": "http://example.com/root.json"}, "a.json", INTEGER),
        ("a.json", {"$id": "http://example.com/root.json"}, "http://example.com/a.json", INTEGER),
        ("http://example.com/a.json", {}, "any name", {**INTEGER, "$id": "http://example.com/a.json"}),
        ("a.json#here", {}, "a.json", {"definitions": {"A": {**INTEGER, "$id": "#here"}}}),
        ("a.json", {}, "a.json", {"$ref": "#/definitions/A", "definitions": {"A": INTEGER}}),
        ("a.json", {}, "a.json", {"$schema": DRAFT_4, "$ref": "b.json#/x"}),
    ],
)
def test_a_reference_leads_to_another_subject_by_name(ref: str, around: Json, name: str, document: Json) -> None:
    assert types_of({**fields(f={"$ref": ref}), **around}, **{name: document, "b.json": {"x": INTEGER}})["f"] == "long"


@pytest.mark.parametrize(
    ("ref", "around"),
    [
        ("#/definitions/T", {}),
        ("#/definitions/T", {"$id": "https://shop/thing"}),
        ("https://shop/thing#/definitions/T", {"$id": "https://shop/thing"}),
        ("#/definitions/T", {"id": "https://shop/thing", "$schema": DRAFT_4}),
        ("#t", {"$id": "https://shop/thing"}),
    ],
)
def test_each_of_several_documents_with_one_id_means_itself_by_it(ref: str, around: Json) -> None:
    """Versions of a document often have one `$id`, and so have its copies in other subjects."""

    def document(kind: str) -> Json:
        return {**fields(t={"$ref": ref}), "definitions": {"T": {"type": kind, "$anchor": "t"}}, **around}

    root = {**document("integer"), **fields(t={"$ref": ref}, old={"$ref": "old"}, new={"$ref": "new"})}

    found = types_of(root, old=document("string"), new=document("boolean"))

    assert (found["t"], found["old"], found["new"]) == ("long", "struct<t: string>", "struct<t: boolean>")


def test_nothing_is_fetched() -> None:
    """Not even the meta-schema of a draft."""
    schema = fields(a={"$ref": "http://example.com/a.json"}, b={"$ref": "#/definitions/none"}, c={"$ref": "#none"})

    found = problems_of(schema)

    where = "is neither in the schema nor in one of its references"
    assert found == (
        f"not a valid JSON Schema: a: $ref 'http://example.com/a.json' {where};"
        f" b: $ref '#/definitions/none' {where}; c: $ref '#none' {where}"
    )


def test_keywords_beside_a_reference_count_from_2019_on() -> None:
    around = {"definitions": {"A": fields(a=INTEGER)}}
    beside = {"$ref": "#/definitions/A", **fields(b=TEXT)}

    assert type_of(beside, **around) == "struct<a: long>"
    assert type_of(beside, **around, **{"$schema": DRAFT_2019}) == "struct<b: string, a: long>"


def test_a_type_inside_itself_ends_in_json_text() -> None:
    schema = {**fields(n=INTEGER, next={"oneOf": [{"type": "null"}, {"$ref": "#"}]}), "title": "Node"}

    found = expanded(schema)

    levels = "string"
    for _ in range(2):
        levels = f"struct<n: long, next: {levels}>"
    assert types_of(schema) == {"n": "long", "next": levels, "_extra": "string"}
    note = "a type inside itself: JSON text from the level 4 on"
    assert found.notes == (SchemaFinding("next.next.next", note),)


def test_a_tree_and_its_elsewhere_defined_branches_end_in_json_text() -> None:
    tree = {"definitions": {"T": fields(kids={"type": "array", "items": {"$ref": "#/definitions/T"}})}}

    found = type_of({"$ref": "#/definitions/T"}, **tree)

    assert found == "struct<kids: list<struct<kids: list<struct<kids: list<string>>>>>>"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "(record): a schema is an object or a boolean, not []"),
        (fields(a={"type": "text"}), "a: unknown type 'text'"),
        (fields(a={"type": ["string", "int"]}), "a: unknown type 'int'"),
        (fields(a=[INTEGER]), "a: a schema is an object or a boolean, not [{'type': 'integer'}]"),
        ({"type": "object", "properties": []}, "(record): properties is an object, not []"),
        (fields(a={"oneOf": {}}), "a: oneOf is a list of schemas, not {}"),
        (fields(a={"allOf": []}), "a: allOf is a list of schemas, not []"),
        (fields(a={"enum": "a"}), "a: enum is a list, not 'a'"),
        (fields(a={"$ref": 1}), "a: $ref 1 is no text"),
        (fields(a={"$ref": "#/properties/a"}), "a: refers to itself without end"),
        (fields(a={"type": "array", "items": {"type": "x"}}), "a[]: unknown type 'x'"),
        (fields(a={"type": "object", "additionalProperties": 1}), "a{}: a schema is an object or a boolean, not 1"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_path(schema: Json, problem: str) -> None:
    assert problems_of(schema) == f"not a valid JSON Schema: {problem}"


@pytest.mark.parametrize("text", ["", "{", '{"title": "\\ud800"}', "[" * 100_000])
def test_a_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(IncompatibleSchemaError, match=r"not a valid JSON Schema: .*: not JSON"):
        expand(text)


def test_all_problems_are_listed_at_once() -> None:
    found = problems_of(fields(a={"type": "x"}, b=fields(c={"$ref": "#none"})))

    assert "a: unknown type 'x'; b.c: $ref '#none' is neither" in found


def test_a_schema_of_endless_alternatives_is_refused_in_time() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(60)}

    found = problems_of({**fields(a={"$ref": "#/definitions/d0"}), "definitions": {**definitions, "d60": INTEGER}})

    assert "more than 200000 references and alternatives" in found


FINDINGS = [
    (fields(a=INTEGER, A=INTEGER), ("A", "a and A differ only in case")),
    ({"type": "object", "properties": {"a-b": INTEGER, "a_b": INTEGER}},
     ("a_b", "a-b and a_b would be the same column")),
    (fields(_extra=TEXT), ("_extra", "takes the name of the column of undeclared fields, _extra")),
    (fields(**{f"c{n}": INTEGER for n in range(MAX_COLUMNS + 1)}), (f"c{MAX_COLUMNS}", "more than 10000 columns")),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "finding"), FINDINGS, ids=[each[1][1] for each in FINDINGS])
def test_what_no_table_can_hold_is_a_finding(schema: Json, finding: tuple[str, str]) -> None:
    problems = [each.problem for each in expanded(schema).findings]

    assert problems == [finding[1]]


def test_nesting_is_limited() -> None:
    schema: Json = INTEGER
    for _ in range(MAX_NESTING + 2):
        schema = {"type": "array", "items": schema}

    assert [each.problem for each in expanded(fields(a=schema)).findings] == [
        f"nested deeper than {MAX_NESTING} levels"
    ]


def test_names_become_those_that_every_reader_takes() -> None:
    schema = {"type": "object", "properties": dict.fromkeys(("@id", "content-type", "a.b", "1st", "größe"), INTEGER)}

    assert list(types_of(schema)) == ["_id", "content_type", "a_b", "_1st", "größe", "_extra"]


def test_descriptions_are_carried_over_and_connects_order_is_kept() -> None:
    schema = fields(
        b={**INTEGER, "connect.index": 1}, a={**TEXT, "connect.index": 0, "description": "What it is."}, c={}
    )

    columns = columns_of(expanded(schema).row)

    assert [(each.name, each.doc) for each in columns[:3]] == [("a", "What it is."), ("b", None), ("c", None)]


NOTES = [
    (fields(a={}), SchemaFinding("a", "values of any type, or of several: JSON text")),
    (fields(a={"type": ["integer", "string"]}), SchemaFinding("a", "values of any type, or of several: JSON text")),
    (fields(a={"type": "null"}), SchemaFinding("a", LEFT_OUT)),
    (fields(a={"type": "object"}), SchemaFinding("a", "an object without declared properties: JSON text")),
    (
        fields(a={"type": "array", "items": [INTEGER]}),
        SchemaFinding("a", "an array whose items have types of their own: JSON text"),
    ),
    (
        {"$schema": "http://example.com/mine", **fields(a=INTEGER)},
        SchemaFinding("", "the draft in $schema is unknown: read as draft-07"),
    ),
    (
        fields(a={**fields(x=INTEGER), "oneOf": [fields(y=TEXT), fields(z=TEXT)]}),
        SchemaFinding("a", "properties that only some of its alternatives declare are in _extra"),
    ),
]


@pytest.mark.parametrize(("schema", "note"), NOTES, ids=[each.problem for _, each in NOTES])
def test_what_a_table_holds_less_exactly_is_noted(schema: Json, note: SchemaFinding) -> None:
    assert expanded(schema).notes == (note,)


def test_the_door_maps_json_schemas() -> None:
    """The record of a schema is its title; a value that is no object has none."""
    titled, untitled, text = (
        map_schema(RegisteredSchema(1, "JSON", json.dumps(each)))
        for each in ({**fields(a=INTEGER), "title": "Order"}, fields(a=INTEGER), TEXT)
    )

    assert (titled.record, untitled.record, text.record) == ("Order", "", None)
    assert [each.name for each in titled.columns] == ["a", "_extra"]


def test_a_schema_that_no_table_can_hold_has_no_decoder() -> None:
    schema = RegisteredSchema(1, "JSON", json.dumps(fields(a=INTEGER, A=INTEGER, b=fields(c=INTEGER, C=INTEGER))))

    with pytest.raises(
        IncompatibleSchemaError, match=r"b\.C: c and C differ only in case; A: a and A differ"
    ) as refused:
        open_decoder(schema)

    assert [each.problem for each in map_schema(schema).findings] == [
        "c and C differ only in case",
        "a and A differ only in case",
    ]
    assert "the JSON Schema cannot become columns" in refused.value.what


def test_the_same_schema_by_many_ways_counts_once() -> None:
    """A chain of references, two from each to the next, leads to its end in thousands of ways."""
    end = {"type": "object", "properties": {f"p{number}": INTEGER for number in range(300)}}
    chain = {f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(13)}

    found = types_of({"$ref": "#/$defs/L0", "$defs": {**chain, "L13": end}})

    assert found["p299"] == "long"


def test_an_index_of_thousands_of_digits_leads_nowhere() -> None:
    assert "is neither in the schema" in problems_of({"allOf": [{"$ref": "#/allOf/" + "9" * 5000}]})


def test_a_text_is_looked_through_once_however_many_properties_it_has() -> None:
    class Counted(str):
        looks = 0

        def __contains__(self, part: object) -> bool:
            Counted.looks += 1
            return super().__contains__(part)  # type: ignore[operator]

    expand(Counted(json.dumps(fields(**{f"c{n}": INTEGER for n in range(100)}))))

    assert 1 <= Counted.looks < 10
