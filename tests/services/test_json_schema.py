"""JSON Schema on a real broker and registry, written by Confluent's own serializer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from breadth import Place, Table, catch_up, framed, receipts, registry_client
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.draft_spec import draft
from frazil.materialize.run import TableRun
from frazil.peek import peek
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

Json = Mapping[str, Any]

ADDRESS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "null"]}},
}
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "placed": {"type": "string", "format": "date-time"},
        "due": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "total": {"type": "number", "minimum": 0},
        "ship_to": {"$ref": "address.json"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "payload": {},
    },
    "required": ["id"],
}
KEY = {"type": "object", "properties": {"shop": {"type": "string"}, "id": {"type": "integer"}}}


def serialized(place: Place, topic: str, field: MessageField, schema: Json, *values: Json) -> list[bytes]:
    """Values as Confluent's serializer writes and registers them; `address.json` is a subject of its own."""
    address = f"{place.name}-address"
    refs = []
    if "address.json" in json.dumps(schema):
        place.register(address, ADDRESS, kind="JSON")
        refs = [SchemaReference("address.json", address, 1)]
    serializer = JSONSerializer(Schema(json.dumps(schema), "JSON", refs), registry_client(place.services))
    written = [serializer(value, SerializationContext(topic, field)) for value in values]
    return [each for each in written if each is not None]


def side_of(run: TableRun) -> KafkaSide:
    kafka = run.clients.kafka
    return KafkaSide(KafkaTopics(kafka), KafkaReader(kafka), run.clients.registry)


def test_records_of_confluents_serializer_become_rows_and_prove_complete(place: Place) -> None:
    topic = place.topic()
    first = {
        "id": 1,
        "placed": "2026-02-28T23:30:00.123456789+01:00",
        "due": "2026-03-01",
        "total": 12.5,
        "ship_to": {"city": "Lisboa", "zip": None, "floor": 3},
        "lines": [{"sku": "a", "count": 2}, {"sku": "b", "note": "fragile"}],
        "labels": {"x": "1"},
        "payload": {"any": [1, {"b": None}]},
        "coupon": "SPRING",
    }
    (k,) = serialized(place, topic, MessageField.KEY, KEY, {"shop": "s", "id": 1})
    place.send(topic, *serialized(place, topic, MessageField.VALUE, ORDER, first, {"id": 2}), key=k)

    run = place.run(f"topic: {topic}\nvalue: json_schema\nkey: json_schema")
    (receipt,) = receipts(catch_up(run))
    table = Table(run)

    assert table.types == {
        "id": "long",
        "placed": "timestamptz",
        "due": "date",
        "total": "double",
        "ship_to": "struct<city: string, zip: string>",
        "lines": "list<struct<sku: string, count: long>>",
        "labels": "map<string, string>",
        "payload": "string",
        "_extra": "string",
        "kafka_partition": "int",
        "kafka_offset": "long",
        "kafka_timestamp": "timestamptz",
        "kafka_key": "struct<shop: string, id: long, _extra: string>",
        "kafka_schema_id": "int",
    }
    row, bare = table.rows()
    assert {name: row[name] for name in list(table.types)[:9]} == {
        "id": 1,
        "placed": datetime(2026, 2, 28, 22, 30, 0, 123_456, UTC),
        "due": date(2026, 3, 1),
        "total": 12.5,
        "ship_to": {"city": "Lisboa", "zip": None},
        "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": None}],
        "labels": [("x", "1")],
        "payload": '{"any":[1,{"b":null}]}',
        "_extra": '{"ship_to.floor":3,"lines[1].note":"fragile","coupon":"SPRING"}',
    }
    assert row["kafka_key"] == {"shop": "s", "id": 1, "_extra": None}
    assert (bare["id"], bare["lines"], bare["_extra"]) == (2, None, None)
    assert (receipt.undeclared_fields, receipt.truncated_nanos) == (3, 1)
    assert verify_table(run.clients.lake, run.spec, kafka=side_of(run)).findings == ()

    place.send(topic, framed(row["kafka_schema_id"], b'{"id": "x"}'), framed(row["kafka_schema_id"], b'{"id": 1,}'))
    newer = {**ORDER, "properties": {**ORDER["properties"], "coupon": {"type": "string"}}}
    place.send(topic, *serialized(place, topic, MessageField.VALUE, newer, {"id": 3, "coupon": "MAY", "x": [1]}))
    catch_up(run)

    assert table.types["coupon"] == "string"
    assert table.rows("id", "coupon", "_extra")[2] == {"id": 3, "coupon": "MAY", "_extra": '{"x":[1]}'}
    assert table.dead_letters("reason", "path", "detail") == [
        {"reason": "wrong_type", "path": "id", "detail": "expected an integer, found a text"},
        {"reason": "bad_json", "path": "", "detail": 'expected a key at byte 9, found "}"'},
    ]
    assert verify_table(run.clients.lake, run.spec, kafka=side_of(run)).findings == ()


def test_init_and_peek_know_the_format(place: Place) -> None:
    topic = place.topic()
    (key,) = serialized(place, topic, MessageField.KEY, KEY, {"shop": "s", "id": 1})
    place.send(topic, *serialized(place, topic, MessageField.VALUE, ADDRESS, {"city": "Rio", "floor": 3}), key=key)
    side = side_of(place.run(f"topic: {topic}\nvalue: json_schema"))
    facts = side.topics.describe(topic)
    assert facts is not None

    found = peek(side.reader, side.registry, facts, 5)
    written = draft(side.registry, facts, found, taken=()).text

    assert [each.columns for each in found] == [{"city": "Rio", "zip": None, "_extra": '{"floor":3}'}]
    assert found[0].key == {"shop": "s", "id": 1, "_extra": None}
    assert "\nvalue: json_schema\n" in written
    assert "\nkey: json_schema\n" in written
