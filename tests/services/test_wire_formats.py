"""Topics whose records name their schemas in another way than by the id before the payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from breadth import QUIET, Place, Table, catch_up, record_of
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import open_registry
from frazil.dead_letters import Chosen, list_dead_letters
from frazil.local.supervisor import LocalServices
from frazil.model.schemas import schema_id_of
from frazil.model.spec import RegistrySettings
from frazil.peek import peek
from frazil.ports import SchemaRegistry
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.guid_registry import guid_front, guid_of

ORDER = record_of(("n", "long"), name="shop.Order")
WIDER = record_of(("n", "long"), ("why", ["null", "string"]), name="shop.Order")
HEADER = "__value_schema_id"


@pytest.fixture(scope="module")
def registry_url(services: LocalServices) -> Iterator[str]:
    with guid_front(services.schema_registry_url) as url:
        yield url


@pytest.fixture(scope="module")
def registry(registry_url: str) -> Iterator[SchemaRegistry]:
    with closing(open_registry(RegistrySettings(registry_url))) as opened:
        yield opened


@dataclass(slots=True)
class Sender:
    """Writes records as Confluent's own serializer does, with the schema's GUID in a header."""

    place: Place
    topic: str
    url: str

    def order(self, schema: dict[str, Any], record: dict[str, Any]) -> None:
        headers: list[tuple[str, bytes | None]] = []
        with SchemaRegistryClient({"url": self.url}) as client:
            how = {"schema.id.serializer": header_schema_id_serializer}
            serializer = AvroSerializer(client, json.dumps(schema), conf=how)
            value = serializer(record, SerializationContext(self.topic, MessageField.VALUE, headers))
        self.place.send(self.topic, value, headers=headers)


def materialize(place: Place, url: str, registry: SchemaRegistry, spec: str) -> Table:
    run = place.run(spec, registry=registry, registry_settings=RegistrySettings(url))
    catch_up(run)
    return Table(run)


def verify(table: Table) -> Verification:
    clients = table.of.clients
    side = KafkaSide(KafkaTopics(clients.kafka), KafkaReader(clients.kafka), clients.registry)
    return verify_table(clients.lake, table.spec, kafka=side)


def test_the_front_does_what_the_client_of_confluent_expects(registry_url: str, place: Place) -> None:
    with SchemaRegistryClient({"url": registry_url}) as client:
        registered = client.register_schema_full_response(f"{place.name}-value", Schema(json.dumps(ORDER), "AVRO"))
        latest = client.get_latest_version(f"{place.name}-value")
        client.clear_caches()
        found = client.get_schema_by_guid(str(latest.guid))

        assert registered.guid == latest.guid == guid_of({"schema": latest.schema.schema_str})
        assert found.schema_str == latest.schema.schema_str
        with pytest.raises(SchemaRegistryError, match="not found"):
            client.get_schema_by_guid("00000000-0000-0000-0000-000000000000")


def test_records_with_a_guid_in_a_header_become_rows(place: Place, registry_url: str, registry: SchemaRegistry) -> None:
    topic = place.topic()
    sender = Sender(place, topic, registry_url)
    sender.order(ORDER, {"n": 0})  # its payload is a single zero byte
    sender.order(WIDER, {"n": 1, "why": "x"})
    place.send(topic, b"\0\0\0\0\1\2")
    place.send(topic, None)
    place.send(topic, b"\2", headers=[(HEADER, b"\1" + bytes(15) + b"\7")])

    table = materialize(place, registry_url, registry, f"topic: {topic}\nwire_format: confluent_headers")

    first, second, tombstone = table.rows("n", "why", "kafka_schema_id", "kafka_schema_uuid")
    one, two = (row["kafka_schema_uuid"] for row in (first, second))
    assert (first["n"], first["why"], second["n"], second["why"]) == (0, None, 1, "x")
    assert {schema_id_of(one), schema_id_of(two)} == set(table.state.schema_ids)
    assert first["kafka_schema_id"] is None and set(tombstone.values()) == {None}
    unknown = "00000000-0000-0000-0000-000000000007"
    assert table.dead_letters("offset", "reason", "schema_id", "schema_uuid") == [
        {"offset": 2, "reason": "not_framed", "schema_id": None, "schema_uuid": None},
        {"offset": 4, "reason": "unknown_schema_id", "schema_id": None, "schema_uuid": unknown},
    ]
    assert verify(table).findings == ()
    listed = list_dead_letters(
        IcebergLake(table.catalog), table.spec, limit=5, chosen=Chosen(schema_id=schema_id_of(unknown))
    )
    assert [letter.offset for letter in listed.newest] == [4]


def test_a_later_process_continues_with_the_guids_in_the_state(
    place: Place, registry_url: str, registry: SchemaRegistry
) -> None:
    topic = place.topic()
    sender = Sender(place, topic, registry_url)
    spec = f"topic: {topic}\nwire_format: confluent_headers"
    sender.order(ORDER, {"n": 1})
    materialize(place, registry_url, registry, spec)
    sender.order(WIDER, {"n": 2, "why": None})
    sender.order(ORDER, {"n": 3})

    table = materialize(place, registry_url, registry, spec)

    assert [row["n"] for row in table.rows()] == [1, 2, 3]
    assert len(table.state.schema_ids) == 2
    assert table.state.fitted is not None and set(table.state.fitted.values) == set(table.state.schema_ids)
    assert verify(table).findings == ()


def test_peek_reads_headers_before_there_is_a_spec(place: Place, registry_url: str, registry: SchemaRegistry) -> None:
    topic = place.topic()
    Sender(place, topic, registry_url).order(ORDER, {"n": 7})
    kafka = {**QUIET, "bootstrap.servers": place.services.bootstrap_servers}
    facts = KafkaTopics(kafka).describe(topic)
    assert facts is not None

    (record,) = peek(KafkaReader(kafka), registry, facts, 1)

    assert record.columns == {"n": 7}
