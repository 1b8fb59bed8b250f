"""Topics whose records name their schemas in another way than by the id before the payload."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import pytest
from breadth import QUIET, REGION, Place, Table, catch_up, encode, record_of
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
from frazil.model.errors import RegistryError, SubjectMissingError
from frazil.model.schemas import (
    UNREGISTERED,
    RegisteredSchema,
    SchemaDefinition,
    SubjectVersion,
    schema_id_of,
)
from frazil.model.settings import GlueSource, RegistrySettings
from frazil.peek import peek
from frazil.ports import SchemaRegistry
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.guid_registry import guid_front, guid_of

ORDER = record_of(("n", "long"), name="shop.Order")
KEY = record_of(("shop", "string"), name="shop.Key")
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


def test_a_key_has_the_guid_of_its_schema_in_a_header(
    place: Place, registry_url: str, registry: SchemaRegistry
) -> None:
    topic, headers, context = place.topic(), list[tuple[str, bytes | None]](), SerializationContext
    how = {"schema.id.serializer": header_schema_id_serializer}
    with SchemaRegistryClient({"url": registry_url}) as client:
        key, value = (
            AvroSerializer(client, json.dumps(schema), conf=how)(record, context(topic, part, headers))
            for part, schema, record in (
                (MessageField.KEY, KEY, {"shop": "s"}),
                (MessageField.VALUE, ORDER, {"n": 1}),
            )
        )
    place.send(topic, value, key=key, headers=headers)
    place.send(topic, value, key=key, headers=[each for each in headers if each[0] != "__key_schema_id"])

    table = materialize(place, registry_url, registry, f"topic: {topic}\nkey: avro\nwire_format: confluent_headers")

    assert table.rows("n", "kafka_key") == [{"n": 1, "kafka_key": {"shop": "s"}}]
    assert len(table.state.key_schema_ids) == 1
    assert not set(table.state.key_schema_ids) & set(table.state.schema_ids)
    assert table.dead_letters("offset", "reason", "path") == [{"offset": 1, "reason": "bad_key", "path": "kafka_key"}]
    assert verify(table).findings == ()


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


# --- AWS Glue

PROTO = 'syntax = "proto3"; package shop; message Order { int64 n = 1; } message Box { int32 b = 1; }'


@pytest.fixture
def glue_place(services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GluePlace:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    place = GluePlace(services, tmp_path)
    place.client.create_registry(RegistryName=place.name)
    return place


@dataclass(slots=True)
class GluePlace(Place):
    """A place whose registry is AWS Glue's."""

    @property
    def client(self) -> Any:
        return boto3.client("glue", region_name=REGION, endpoint_url=self.services.aws_endpoint_url)

    @property
    def registry_section(self) -> dict[str, object]:
        url = self.services.aws_endpoint_url
        return {"type": "glue", "region": REGION, "registry_name": self.name, "url": url}

    def version(self, name: str, text: str, data_format: str = "AVRO") -> UUID:
        """Register a version of a schema, as a producer does, and return its id."""
        try:
            made = self.client.create_schema(
                RegistryId={"RegistryName": self.name},
                SchemaName=name,
                DataFormat=data_format,
                Compatibility="NONE",
                SchemaDefinition=text,
            )
        except self.client.exceptions.AlreadyExistsException:
            schema = {"RegistryName": self.name, "SchemaName": name}
            made = self.client.register_schema_version(SchemaId=schema, SchemaDefinition=text)
        return UUID(made["SchemaVersionId"])

    def opened(self) -> SchemaRegistry:
        source = GlueSource(self.name, REGION)
        return open_registry(RegistrySettings(self.services.aws_endpoint_url, glue=source))


def in_glue(version: UUID, data: bytes, *, is_compressed: bool = False) -> bytes:
    return bytes([3, 5 if is_compressed else 0]) + version.bytes + (zlib.compress(data) if is_compressed else data)


def avro(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    (value,) = encode(schema, 0, record)
    return value[5:]


def test_records_of_glue_become_rows(glue_place: GluePlace) -> None:
    place, topic = glue_place, glue_place.topic()
    one = place.version(topic, json.dumps(ORDER))
    place.send(topic, in_glue(one, avro(ORDER, {"n": 0})))
    place.send(topic, in_glue(one, avro(ORDER, {"n": 1}), is_compressed=True))
    two = place.version(topic, json.dumps(WIDER))
    place.send(topic, in_glue(two, avro(WIDER, {"n": 2, "why": "x"}), is_compressed=True))
    other = UUID(int=7)
    place.send(topic, in_glue(other, b"\0"), b"\0\0\0\0\1\2", in_glue(one, b"")[:1] + b"\5" + one.bytes + b"no zlib")
    place.send(topic, None)

    table = place.materialize(f"topic: {topic}\nwire_format: glue")

    found = table.rows("n", "why", "kafka_schema_id", "kafka_schema_uuid")
    assert found == [
        {"n": 0, "why": None, "kafka_schema_id": None, "kafka_schema_uuid": str(one)},
        {"n": 1, "why": None, "kafka_schema_id": None, "kafka_schema_uuid": str(one)},
        {"n": 2, "why": "x", "kafka_schema_id": None, "kafka_schema_uuid": str(two)},
        dict.fromkeys(found[0]),
    ]
    assert table.dead_letters("reason", "schema_id", "schema_uuid") == [
        {"reason": "unknown_schema_id", "schema_id": None, "schema_uuid": str(other)},
        {"reason": "not_framed", "schema_id": None, "schema_uuid": None},
        {"reason": "bad_compression", "schema_id": None, "schema_uuid": str(one)},
    ]
    assert set(table.state.schema_ids) == {one, two}
    assert verify(table).findings == ()


def test_versions_of_glue_have_their_numbers(glue_place: GluePlace) -> None:
    place, topic = glue_place, glue_place.topic()
    first, wider = json.dumps(ORDER), json.dumps(WIDER)
    ids = [place.version(topic, first), place.version(topic, wider)]

    with closing(place.opened()) as registry:
        found = [registry.by_id(each) for each in ids]

    assert [each and each.version and each.version.number for each in found] == [1, 2]
    assert len({each and each.version and each.version.name for each in found}) == 1


def test_json_and_keys_of_glue_become_rows(glue_place: GluePlace) -> None:
    place, topic = glue_place, glue_place.topic()
    value = place.version(topic, json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}), "JSON")
    key = place.version(f"{topic}-key", json.dumps(KEY))
    framed_key = in_glue(key, avro(KEY, {"shop": "s"}), is_compressed=True)
    place.send(topic, in_glue(value, b'{"n": 7}'), in_glue(value, b'{"n": "no number"}'), key=framed_key)
    place.send(topic, in_glue(value, b'{"n": 8}', is_compressed=True), key=b"not framed")

    table = place.materialize(
        f"topic: {topic}\nkey: avro\nkey_subject: {{name: {topic}-key}}\nvalue: json_schema\nwire_format: glue"
    )

    assert table.rows("n", "kafka_key") == [{"n": 7, "kafka_key": {"shop": "s"}}]
    assert table.state.key_schema_ids == (key,)
    assert table.dead_letters("offset", "reason", "path") == [
        {"offset": 1, "reason": "wrong_type", "path": "n"},
        {"offset": 2, "reason": "bad_key", "path": "kafka_key"},
    ]
    assert verify(table).findings == ()


def test_protobuf_of_glue_becomes_rows(glue_place: GluePlace) -> None:
    place, topic = glue_place, glue_place.topic()
    version = place.version(topic, PROTO, "PROTOBUF")
    place.send(topic, in_glue(version, b"\1\x08\7"), in_glue(version, b"\1\x08\1", is_compressed=True))
    place.send(topic, in_glue(version, b"\0\x08\7"))

    table = place.materialize(f"topic: {topic}\nvalue: protobuf\nwire_format: glue")

    assert [row["n"] for row in table.rows()] == [7, 1]
    assert table.dead_letters("reason") == [{"reason": "wrong_message"}]
    assert verify(table).findings == ()


def test_the_registry_of_glue_answers_as_the_port_says(glue_place: GluePlace) -> None:
    place, registry = glue_place, glue_place.opened()
    first = place.version("orders", json.dumps(ORDER))
    second = place.version("orders", json.dumps(WIDER))
    place.version("other", PROTO, "PROTOBUF")

    latest, older, by_id = registry.latest("orders"), registry.version("orders", 1), registry.by_id(first)
    assert latest == RegisteredSchema(second, "AVRO", json.dumps(WIDER))
    assert older == by_id == RegisteredSchema(first, "AVRO", json.dumps(ORDER))
    proto = registry.latest("other")
    assert proto is not None and proto.format == "PROTOBUF"
    assert (registry.latest("none"), registry.by_id(12)) == (None, None)
    with pytest.raises(SubjectMissingError, match="no version 9 of orders, which has 1, 2"):
        registry.version("orders", 9)
    versions = place.client.list_schema_versions(SchemaId={"RegistryName": place.name, "SchemaName": "orders"})
    assert [each["VersionNumber"] for each in versions["Schemas"]] == [1, 2]
    other = GluePlace(place.services, place.folder)
    other.client.create_registry(RegistryName=other.name)
    assert registry.by_id(other.version("orders", json.dumps(ORDER))) is None
    assert not registry.remembers_missing(UUID(int=9))
    assert registry.by_id(UUID(int=9)) is None
    assert registry.remembers_missing(UUID(int=9))
    assert sorted(registry.subjects_under("o")) == ["orders", "other"]
    assert registry.resolve(SchemaDefinition("AVRO", '"long"')).id == UNREGISTERED
    with pytest.raises(RegistryError, match="no references"):
        registry.resolve(SchemaDefinition("AVRO", '"long"', (SubjectVersion("a", "b", 1),)))
    registry.close()


def test_a_registry_of_glue_that_does_not_exist_is_no_missing_schema(glue_place: GluePlace) -> None:
    missing = GlueSource("none", REGION)
    registry = open_registry(RegistrySettings(glue_place.services.aws_endpoint_url, glue=missing))
    says = pytest.raises(RegistryError, match="the schema registry none of AWS Glue in us-east-1 does not exist")

    with closing(registry), says:
        registry.latest("orders")


def test_a_registry_of_glue_that_does_not_answer_is_no_missing_schema(glue_place: GluePlace) -> None:
    source = GlueSource("r", REGION)
    with closing(open_registry(RegistrySettings("http://127.0.0.1:9", glue=source))) as registry:
        with pytest.raises(RegistryError, match="the schema registry r of AWS Glue in us-east-1"):
            registry.by_id(UUID(int=1))
        assert not registry.remembers_missing(UUID(int=1))
