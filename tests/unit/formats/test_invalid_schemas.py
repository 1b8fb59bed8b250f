"""Texts that are no schemas, unlike schemas that cannot become columns."""

from __future__ import annotations

import pytest

from frazil.formats.open import why_invalid
from frazil.model.schemas import UNREGISTERED, RegisteredSchema, SchemaType

GROUP = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 2; } }'
CLASH = '{"type": "record", "name": "a", "fields": [{"name": "x", "type": "int"}, {"name": "X", "type": "int"}]}'


@pytest.mark.parametrize(
    ("schema_type", "text", "said"),
    [
        ("AVRO", "hello", "not a valid Avro schema: (record): not JSON"),
        ("AVRO", '{"order_id": 1}', "a type is missing"),
        ("JSON", "[]", "a schema is an object or a boolean"),
        ("PROTOBUF", "hello", "neither a .proto text nor a serialized file descriptor"),
    ],
)
def test_a_text_that_is_no_schema_has_a_reason(schema_type: SchemaType, text: str, said: str) -> None:
    assert said in (why_invalid(RegisteredSchema(UNREGISTERED, schema_type, text)) or "")


@pytest.mark.parametrize(("schema_type", "text"), [("AVRO", CLASH), ("JSON", "{}"), ("PROTOBUF", GROUP)])
def test_a_schema_without_columns_is_a_schema(schema_type: SchemaType, text: str) -> None:
    assert why_invalid(RegisteredSchema(UNREGISTERED, schema_type, text)) is None
