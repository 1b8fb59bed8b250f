"""`fields` of a table spec: what may be declared, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from config_files import KAFKA, Load

from frazil.formats.declared import _KINDS
from frazil.formats.open import plain_columns
from frazil.model.declared import WORDS, decimal_of
from frazil.model.errors import Misuse
from frazil.model.spec import FormatSettings

SPEC = "topic: orders\nvalue: json\nfields:\n"
ALL = """
  id: long
  price: decimal( 10,2 )
  größe: float
  customer: {name: string, born: date}
  items: [{sku: string, tags: [string]}]
  attributes: {'*': {'*': json}}
"""


def declared(load: Load, fields: str) -> str:
    (spec,) = load(KAFKA, SPEC + fields).tables
    return spec.value_settings.fields


def test_a_declaration_becomes_columns(load: Load) -> None:
    text = declared(load, ALL)

    assert json.loads(text) == {
        "id": "long",
        "price": "decimal(10, 2)",
        "größe": "float",
        "customer": {"name": "string", "born": "date"},
        "items": [{"sku": "string", "tags": ["string"]}],
        "attributes": {"*": {"*": "json"}},
    }
    assert [(each.name, str(each.type)) for each in plain_columns("json", FormatSettings(fields=text))] == [
        ("id", "long"),
        ("price", "decimal(10, 2)"),
        ("größe", "float"),
        ("customer", "struct<name: string, born: date>"),
        ("items", "list<struct<sku: string, tags: list<string>>>"),
        ("attributes", "map<string, map<string, string>>"),
        ("_extra", "string"),
    ]


def test_every_word_has_a_kind() -> None:
    assert tuple(_KINDS) == WORDS


@pytest.mark.parametrize(
    ("text", "digits"),
    [("decimal(38,38)", (38, 38)), ("decimal(1, 0)", (1, 0)), ("decimal(39, 1)", None), ("decimal(2, 3)", None),
     ("decimal(0, 0)", None), ("decimal(10)", None), ("long", None)],
)  # fmt: skip
def test_a_decimal_has_at_most_38_digits(text: str, digits: tuple[int, int] | None) -> None:
    assert decimal_of(text) == digits


@pytest.mark.parametrize(
    ("fields", "what", "hint"),
    [
        ("  id: lnog", "fields.id: expected a type, {field: type, …}, [type] or {'*': type}, found \"lnog\"", "long?"),
        ("  id: decimal(40, 2)", 'found "decimal(40, 2)"', "use one of: boolean, int, long"),
        ("  id: [int, long]", "fields.id: expected a type", "write a type, such as string"),
        ("  id: {}", "fields.id: expected a type", "write a type, such as string"),
        ("  id:", "found nothing", "write a type, such as string"),
        ("  a: {b: {c: nope}}", "fields.a.b.c: expected a type", "use one of"),
        ("  a: int\n  A: int", "a and A differ only in case", "declare one of them: _extra holds the other"),
        ("  a: {x: int, X: int}", "fields.a.X: x and X differ only in case", "_extra holds the other"),
        ("  a-b: int", "fields.a-b: a column's name has letters, digits and _ only", "leave the field out"),
        ("  _Extra: int", "_extra holds the fields that are not declared", "leave it out"),
        ("  Kafka_Offset: int", "fields: the field Kafka_Offset has the name of a metadata column", "metadata.prefix"),
        ("  {}", "fields: expected a mapping from fields to types, found an empty mapping", "write {id: long"),
    ],
)
def test_what_cannot_be_declared_is_said_with_its_path(load: Load, fields: str, what: str, hint: str) -> None:
    with pytest.raises(Misuse) as said:
        declared(load, fields)

    assert what in said.value.what
    assert hint in said.value.hint


def test_only_json_has_declared_fields(load: Load) -> None:
    with pytest.raises(Misuse, match="fields: no effect, because value is string"):
        load(KAFKA, "topic: a\nvalue: string\nfields: {id: long}")
