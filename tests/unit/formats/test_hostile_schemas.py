"""Schemas that few expect in a registry or a record: each is read or refused, and none ends the process."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_validity_for_confluent import an_object, found

from frazil.cli.evolution_page import EXAMPLES as CHANGES
from frazil.cli.evolution_page import schema_of
from frazil.cli.validity_page import EXAMPLES
from frazil.formats.arrow import arrow_type
from frazil.formats.open import invalid_for_confluent, map_schema, open_decoder, record_names, why_invalid
from frazil.formats.validity import Rule
from frazil.model.change_events import ChangeEvents
from frazil.model.columns import Column, Struct
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema, SchemaType
from frazil.model.spec import DEFAULT_SETTINGS, FormatSettings
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.connect_samples import json_schema
from tests.fakes.debezium_samples import POSTGRES

MUTANTS = 1_500
VALUES: tuple[Any, ...] = (
    None, True, -1, 1.5, float("inf"), float("nan"), 10**30, "", "#", "Row", "\ud800", "string", [], {}, [{}], [[]],
    [None], {"a": 1}, {"scale": 1e999}, {"scale": None}, {"type": "string"}, {"$ref": "#"},
)  # fmt: skip
KEYWORDS = (
    "type", "items", "values", "fields", "field", "name", "logicalType", "precision", "scale", "size", "symbols",
    "flink.precision", "flink.maxLength", "connect.type", "connect.parameters", "connect.index", "title", "oneOf",
    "allOf", "enum", "const", "$ref", "properties", "additionalProperties", "required", "format", "confluent:tags",
    "confluent:union", "aliases", "namespace", "doc", "parameters", "keys", "optional",
)  # fmt: skip
CONVERTED = json_schema(POSTGRES)
EVENTS = FormatSettings(change_events=ChangeEvents())


def seeds() -> Iterator[tuple[SchemaType, Any]]:
    for each in (*(each.schema for each in EXAMPLES), *(schema_of(each.before, {}) for each in CHANGES)):
        if each.format != "PROTOBUF":
            yield each.format, json.loads(each.text)
    yield "CONNECT", POSTGRES
    yield "JSON", json.loads(CONVERTED)


def places(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    for step, each in inside:
        yield from places(each, (*path, step))


def mutated(chance: random.Random, raw: Any) -> Any:
    """Return a copy with another value at a random place, or with one more keyword there."""
    whole = [copy.deepcopy(raw)]
    *around, last = (0, *chance.choice(list(places(raw))))
    parent: Any = whole
    for step in around:
        parent = parent[step]
    value = copy.deepcopy(chance.choice(VALUES))
    if isinstance(parent[last], dict) and chance.random() < 0.6:
        parent[last][chance.choice(KEYWORDS)] = value
    else:
        parent[last] = value
    return whole[0]


def test_no_schema_ends_the_process() -> None:
    chance, known = random.Random(12), list(seeds())
    for number in range(MUTANTS):
        schema_type, raw = chance.choice(known)
        schema = RegisteredSchema(number, schema_type, json.dumps(mutated(chance, raw)))
        for settings in (EVENTS,) if schema_type == "CONNECT" else (EVENTS, DEFAULT_SETTINGS):
            with suppress(IncompatibleSchemaError):
                map_schema(schema, settings)
                invalid_for_confluent(schema, settings)
                open_decoder(schema, settings)
        record_names(schema)


@pytest.mark.parametrize(
    ("schema_type", "text", "said"),
    [
        ("AVRO", '{"type": "record", "name": {}, "fields": []}', "{} is not a name"),
        ("JSON", '{"type": {}}', "unknown type {}"),
        ("JSON", '{"type": "object", "properties": {"a": {"oneOf": 1}}}', "oneOf is a list of schemas, not 1"),
    ],
)
def test_a_keyword_of_another_type_is_a_reason(schema_type: SchemaType, text: str, said: str) -> None:
    assert said in (why_invalid(RegisteredSchema(1, schema_type, text)) or "")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "integer", "connect.type": {}},
        {"type": "integer", "title": []},
        {"type": "string", "format": {}},
        {"title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes", "type": "number",
         "connect.parameters": {"scale": float("inf")}},
    ],
)  # fmt: skip
def test_words_that_no_draft_defines_may_have_any_value(part: dict[str, Any]) -> None:
    text = json.dumps({"type": "object", "properties": {"a": part}, "required": [{}]})

    assert [each.name for each in map_schema(RegisteredSchema(1, "JSON", text)).columns] == ["a", "_extra"]


def test_a_comment_with_half_of_a_surrogate_pair_is_one_that_a_table_can_have() -> None:
    text = record({**a_field("a"), "doc": "so \ud800"})

    assert [each.doc for each in map_schema(RegisteredSchema(1, "AVRO", text)).columns] == ["so ?"]


def invalid(schema_type: SchemaType, part: Any) -> list[tuple[Rule, str]]:
    return found(schema_type, an_object(a=part) if schema_type == "JSON" else record(a_field("a", part)))


def test_numbers_that_are_not_finite_are_no_precision() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal"}
    timestamp = {"type": "long", "logicalType": "timestamp-micros", "flink.precision": float("inf")}
    money = {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes"}

    assert invalid("AVRO", {**decimal, "precision": float("inf")}) == [(Rule.CONVERSION, "a")]
    assert invalid("AVRO", {**decimal, "precision": 9, "scale": float("nan")}) == []
    assert invalid("AVRO", timestamp) == []
    assert invalid("JSON", {**money, "connect.parameters": {"scale": None}}) == [(Rule.CONVERSION, "a")]


def test_attributes_that_mean_nothing_on_a_type_are_not_read() -> None:
    assert invalid("AVRO", {"type": "int", "items": "x"}) == []
    assert invalid("AVRO", {"type": "string", "items": {"type": "record", "name": "r", "fields": 1}}) == []


def test_an_entry_of_a_map_that_leads_to_itself_is_recursive() -> None:
    again = {"type": "array", "logicalType": "map", "items": "KV"}
    entry = {"type": "record", "name": "KV", "fields": [a_field("key", "string"), a_field("value", ["null", again])]}

    assert invalid("AVRO", {**again, "items": entry}) == [(Rule.CYCLIC_TYPE, "a")]


def test_an_all_of_that_leads_to_its_own_schema_is_recursive() -> None:
    assert invalid("JSON", {"allOf": [{"$ref": "#"}, {"minProperties": 1}]}) == [(Rule.CYCLIC_TYPE, "a.a")]


def test_schemas_that_use_each_other_twice_are_judged_in_linear_time() -> None:
    def twice(number: int) -> dict[str, Any]:
        inner = {"allOf": [{"$ref": f"#/definitions/d{number}"}, {"minProperties": 1}]} if number else {"type": "null"}
        return {"type": "object", "properties": {"x": inner, "y": inner if number else {"type": "string"}}}

    many = {f"d{number + 1}": twice(number) for number in range(30)}
    text = json.dumps({"$ref": "#/definitions/d30", "definitions": many})

    refused = invalid_for_confluent(RegisteredSchema(1, "JSON", text))

    assert [each.problem for each in refused] == ["is null alone"]


def nested(steps: str) -> str:
    """Return an Avro record with a field: an array (`a`), a map (`m`) or a record (`r`) of the next one, and so on."""
    inside: Any = "long"
    for number, step in enumerate(reversed(steps)):
        inside = {
            "a": {"type": "array", "items": inside},
            "m": {"type": "map", "values": inside},
            "r": {"type": "record", "name": f"R{number}", "fields": [a_field("f", inside)]},
        }[step]
    return record(a_field("v", inside))


@pytest.mark.parametrize(
    ("steps", "too_deep"),
    [
        ("a" * 48, None),
        ("a" * 49, "v" + "[]" * 49),
        ("m" * 60, "v" + "{}" * 49),
        ("ar" * 31, None),
        ("aar" * 21, "v" + "[][].f" * 19 + "[][]"),
    ],
)
def test_no_column_is_deeper_than_a_file_that_arrow_reads(tmp_path: Path, steps: str, too_deep: str | None) -> None:
    mapped = map_schema(RegisteredSchema(1, "AVRO", nested(steps)))

    assert [each.path for each in mapped.findings] == ([too_deep] if too_deep else [])
    if too_deep is None:
        in_key = Column("kafka_key", Struct(mapped.columns))
        file = tmp_path / "a.parquet"
        pq.write_table(pa.schema([("kafka_key", arrow_type(in_key.type))]).empty_table(), file)
        assert pq.read_table(file).num_rows == 0
