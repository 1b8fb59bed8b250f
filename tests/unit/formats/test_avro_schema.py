"""Schema texts become one self-contained schema, or all their problems."""

from __future__ import annotations

import json

import fastavro
import pytest
from avro_samples import REPEATABLE, Json, parsed, record_of, schemas, text_of
from hypothesis import given, settings

from frazil.formats.avro.schema import parse_schema
from frazil.formats.avro.types import Logical, Primitive, Record, Ref
from frazil.model.errors import IncompatibleSchemaError
from tests.sampling import examples


def test_names_become_full_names() -> None:
    inner = {"type": "fixed", "name": "Code", "size": 2}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "Code"]}]

    schema = parsed({"type": "record", "name": "shop.eu.Order", "fields": fields})

    assert list(schema.named) == ["shop.eu.Code", "shop.eu.Order"]
    assert schema.root == Ref("shop.eu.Order")


def test_a_dotted_name_can_be_referred_to_from_another_namespace() -> None:
    """Libraries that read Avro do not find these by themselves."""
    inner = {"type": "record", "name": "a.b.C", "fields": [{"name": "g", "type": "int"}]}
    fields = [{"name": "f", "type": inner}, {"name": "h", "type": ["null", "a.b.C"]}]

    schema = parsed({"type": "record", "name": "x.Y", "fields": fields})

    assert json.loads(schema.text)["fields"][1]["type"] == ["null", "a.b.C"]


def test_references_are_written_into_the_text() -> None:
    money = '{"type":"record","name":"bank.Money","fields":[{"name":"cents","type":"long"}]}'
    line = '{"type":"record","name":"shop.Line","fields":[{"name":"price","type":"bank.Money"}]}'
    order = record_of({"type": "array", "items": "shop.Line"}, "bank.Money")

    schema = parse_schema(text_of(order), [money, line, money])

    assert json.loads(schema.text)["fields"][1]["type"] == "bank.Money"
    assert parse_schema(schema.text) == schema
    fastavro.parse_schema(json.loads(schema.text))


def test_a_name_without_namespace_survives_inside_one() -> None:
    bare = '{"type":"enum","name":"Side","symbols":["BUY"]}'
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "side", "type": "Side"}]}

    schema = parse_schema(text_of(order), [bare])

    assert "Side" in schema.named
    assert parse_schema(schema.text) == schema


@settings(REPEATABLE, max_examples=examples(60, 5000))
@given(schemas(recursive=True))
def test_the_text_means_the_same_schema(schema: Json) -> None:
    once = parsed(schema)

    again = parse_schema(once.text)

    assert (again, again.root, again.named) == (once, once.root, once.named)


def test_every_problem_is_told_at_once() -> None:
    fields = [
        {"name": "a", "type": "Missing"},
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["int", "int"]},
        {"name": "c", "type": []},
        {"name": "d", "type": ["null", ["int"]]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": []}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": -1}},
        {"name": "g", "type": {"type": "array"}},
        {"name": "1h", "type": "int"},
    ]

    with pytest.raises(IncompatibleSchemaError) as caught:
        parsed({"type": "record", "name": "Row", "fields": fields})

    for problem in (
        "a: unknown type 'Missing'",
        "(record): field a is there twice",
        "b: a union with two branches of type int",
        "c: a union without branches",
        "d: a union directly inside a union",
        "e: an enum without symbols",
        "f: -1 is not the size of a fixed",
        "g[]: a type is missing",
        "(record): '1h' is not a name",
    ):
        assert problem in caught.value.what


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, '{"type":' * 3000, "null no", '{"type":"record","name":"R"}'])
def test_nonsense_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(IncompatibleSchemaError):
        parse_schema(text)


@pytest.mark.parametrize(
    "annotated",
    [
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
        {"type": "bytes", "logicalType": "decimal", "precision": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": "4"},
        {"type": "string", "logicalType": "date"},
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "made-up"},
    ],
)
def test_an_invalid_logical_type_is_ignored(annotated: Json) -> None:
    row = parsed(record_of(annotated)).row()

    assert row.fields[0].type == Primitive(annotated["type"])


def test_a_decimal_wider_than_its_fixed_is_ignored() -> None:
    def decimal(precision: int) -> Json:
        return {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": precision}

    kept, ignored = parsed(record_of(decimal(9))), parsed(record_of(decimal(10)))

    assert kept.named["F"].logical == Logical("decimal", 9, 0)
    assert ignored.named["F"].logical is None


def test_what_is_no_record_is_read_as_one_field() -> None:
    row = parsed(["null", "long"]).row()

    assert isinstance(row, Record)
    assert [field.name for field in row.fields] == ["value"]
