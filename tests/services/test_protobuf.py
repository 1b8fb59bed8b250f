"""Protobuf as Confluent's serializer writes it: referenced subjects, a changed schema, a bad record, and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from breadth import Place, Table, catch_up, framed, registry_client, registry_of
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.formats.protobuf.builtin import BUILT_IN
from frazil.formats.protobuf.schema import descriptor_of
from frazil.local.supervisor import LocalServices
from frazil.peek import peek
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }'
ORDER = """
    syntax = "proto3"; package shop;
    import "shop/money.proto"; import "google/protobuf/timestamp.proto"; import "confluent/type/decimal.proto";
    message Order {
      string id = 1; Money paid = 2; google.protobuf.Timestamp at = 3; repeated Line lines = 4;
      map<string, int32> counts = 5; State state = 6; oneof how { string card = 7; bool cash = 8; }
      confluent.type.Decimal rate = 9 [(confluent.field_meta) = { params: { key: "precision", value: "6" } }];
      MORE
      message Line { uint64 sku = 1; optional double price = 2; }
      enum State { UNKNOWN = 0; PAID = 1; }
    }
    message Refund { string id = 1; }
"""
FIRST, SECOND = (ORDER.replace("MORE", more) for more in ("", "string note = 10;"))


def classes(order: str) -> Mapping[str, Any]:
    """The classes that `protoc` would generate."""
    pool = descriptor_pool.DescriptorPool()
    texts = {"shop/money.proto": MONEY, "shop/order.proto": order}
    imports = ("google/protobuf/timestamp.proto", "confluent/type/decimal.proto")
    for name, text in ({each: BUILT_IN[each] for each in imports} | texts).items():
        file = descriptor_pb2.FileDescriptorProto()
        file.CopyFrom(descriptor_of(text))
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Refund")}


def encoded(place: Place, topic: str, message: Any) -> bytes:
    """What the serializer of Confluent writes, after registering the schema and the subjects that it refers to."""
    settings = {
        "use.deprecated.format": False,
        "reference.subject.name.strategy": lambda context, reference: f"{place.name}-{reference.name}",
    }
    serializer = ProtobufSerializer(type(message), registry_client(place.services), settings)
    written = serializer(message, SerializationContext(topic, MessageField.VALUE))
    assert written is not None
    return written


@dataclass(frozen=True)
class Shop:
    place: Place
    topic: str
    table: Table

    def verify(self) -> Verification:
        clients = self.table.of.clients
        with_kafka = KafkaSide(
            KafkaTopics(dict(clients.kafka)), KafkaReader(dict(clients.kafka)), registry_of(self.place.services)
        )
        return verify_table(clients.lake, self.table.spec, kafka=with_kafka)


@pytest.fixture(scope="module")
def shop(services: LocalServices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Two orders of one schema, bad records among them, and an order of the next schema after a first batch."""
    place = Place(services, tmp_path_factory.mktemp("protobuf"))
    topic = place.topic()
    made = classes(FIRST)
    full = made["Order"](id="a", paid={"cents": 5}, lines=[{"sku": 2**64 - 1}], counts={"x": 1}, state=1, card="4")
    full.at.FromJsonString("2024-02-29T12:00:00.000001999Z")
    full.rate.value = b"\x01\xe2\x40"
    values = [encoded(place, topic, each) for each in (full, made["Order"](state=9), made["Refund"](id="r"))]
    place.send(topic, *values, values[0][:-1], framed(2_000_000_000, b"\0"), b"no frame", None, key=b"k")
    run = place.run(f"topic: {topic}\nvalue: protobuf\nmessage: shop.Order")
    catch_up(run)
    later = classes(SECOND)["Order"](id="b", note="new")
    place.send(topic, encoded(place, topic, later), key=b"k")
    catch_up(run)
    yield Shop(place, topic, Table(run))


def test_each_type_becomes_its_column(shop: Shop) -> None:
    assert {name: kind for name, kind in shop.table.types.items() if not name.startswith("kafka_")} == {
        "id": "string",
        "paid": "struct<cents: long, currency: string>",
        "at": "timestamptz",
        "lines": "list<struct<sku: decimal(20, 0), price: double>>",
        "counts": "map<string, int>",
        "state": "string",
        "card": "string",
        "cash": "boolean",
        "rate": "decimal(6, 0)",
        "note": "string",
    }


def test_each_value_arrives_as_it_was_sent(shop: Shop) -> None:
    full, unknown, tombstone, later = shop.table.rows()

    assert (full["paid"], full["lines"], full["counts"]) == (
        {"cents": 5, "currency": ""},
        [{"sku": Decimal(2**64 - 1), "price": None}],
        [("x", 1)],
    )
    assert (full["at"].isoformat(), full["state"], full["card"], full["cash"], full["rate"], full["note"]) == (
        "2024-02-29T12:00:00.000001+00:00", "PAID", "4", None, Decimal(123456), None,
    )  # fmt: skip
    assert (unknown["id"], unknown["paid"], unknown["state"], unknown["lines"]) == ("", None, "9", [])
    assert (tombstone["id"], tombstone["lines"]) == (None, None)
    assert (later["id"], later["note"]) == ("b", "new")


def test_bad_records_are_dead_letters(shop: Shop) -> None:
    assert shop.table.dead_letters("offset", "reason", "detail", "path") == [
        {"offset": 2, "reason": "wrong_message", "detail": "the record is a shop.Refund, expected a shop.Order",
         "path": ""},
        {"offset": 3, "reason": "bad_length", "detail": "the value is 5 bytes long, but the message has 4 left",
         "path": "rate"},
        {"offset": 4, "reason": "unknown_schema_id", "detail": "the registry has no schema with the id 2000000000",
         "path": ""},
        {"offset": 5, "reason": "not_framed", "detail": shop.table.dead_letters("detail")[3]["detail"], "path": ""},
    ]  # fmt: skip


def test_the_table_is_proven_against_kafka(shop: Shop) -> None:
    verification = shop.verify()

    assert verification.findings == ()


def test_records_are_peeked_as_the_spec_says(shop: Shop) -> None:
    kafka = dict(shop.table.of.clients.kafka)
    facts = KafkaTopics(kafka).describe(shop.topic)
    assert facts is not None

    found = peek(KafkaReader(kafka), registry_of(shop.place.services), facts, 8, spec=shop.table.spec)

    assert [each.columns.get("id") for each in found] == ["a", "", None, None, None, None, None, "b"]
    assert [each.reject.reason.value for each in found if each.reject] == [
        "wrong_message", "bad_length", "unknown_schema_id", "not_framed",
    ]  # fmt: skip


def test_a_text_with_references_is_a_schema_of_keys(place: Place) -> None:
    topic = place.topic()
    place.register(f"{topic}-money", MONEY, kind="PROTOBUF")
    text = 'syntax = "proto3"; package shop; import "shop/money.proto"; message Key { Money paid = 1; }'
    references = [("shop/money.proto", f"{topic}-money")]
    key_id = place.register(f"{topic}-key", text, kind="PROTOBUF", references=references)
    value_id = place.register(f"{topic}-value", MONEY, kind="PROTOBUF")
    place.send(topic, framed(value_id, b"\0\x08\x05"), key=framed(key_id, b"\0\x0a\x02\x08\x07"))

    table = place.materialize(f"topic: {topic}\nvalue: protobuf\nkey: protobuf")

    assert table.rows("cents", "kafka_key") == [{"cents": 5, "kafka_key": {"paid": {"cents": 7, "currency": ""}}}]


def test_of_two_versions_of_an_import_the_first_is_meant_everywhere(place: Place) -> None:
    """So the registry and Confluent's clients resolve references."""
    topic = place.topic()
    item = 'syntax = "proto3"; package shop; message Item { int64 id = 1; }'
    place.register(f"{topic}-item", item, kind="PROTOBUF")
    line = 'syntax = "proto3"; package shop; import "item.proto"; message Line { Item item = 1; }'
    old = [("item.proto", f"{topic}-item")]
    place.register(f"{topic}-line", line, kind="PROTOBUF", references=old)
    place.register(f"{topic}-newer", item.replace("}", "string name = 2; }"), kind="PROTOBUF")
    whole = (
        'syntax = "proto3"; package shop; import "item.proto"; import "line.proto"; message Whole { Item item = 1; }'
    )
    references = [("item.proto", f"{topic}-newer"), ("line.proto", f"{topic}-line")]
    schema_id = place.register(f"{topic}-value", whole, kind="PROTOBUF", references=references)
    place.send(topic, framed(schema_id, b"\0\x0a\x05\x08\x07\x12\x01a"))

    table = place.materialize(f"topic: {topic}\nvalue: protobuf")

    assert table.rows("item") == [{"item": {"id": 7, "name": "a"}}]
