"""The benchmark's orders in each value format, and their topics: good, with bad records, of many schema ids, and with
fields in another order."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from bench.formats import PROTO, protobuf_orders
from bench.json_orders import TIMES, UNDECLARED, in_json, json_schema
from bench.orders import SCHEMA, encoded
from bench.reordered import reordered, reordered_schema
from frazil.formats.framing import FRAME_BYTES
from frazil.formats.protobuf.schema import parse_schema as parse_protobuf
from frazil.local.supervisor import LocalServices
from frazil.model.schemas import SchemaType
from frazil.model.spec import ValueFormat

SCHEMA_IDS = 20
BAD_EVERY = 100
Variant = Literal["good", "bad", "ids", "reordered"]


@dataclass(frozen=True, slots=True)
class OrderFormat:
    """A value format. `schema` returns the text of a version; versions declare the same fields.

    `bodies` yields the data of so many orders, without the frame of the wire format. `variants` are its topics.
    """

    name: str
    word: ValueFormat
    bodies: Callable[[int], Iterator[bytes]]
    schema_type: SchemaType | None = None
    schema: Callable[[int], str] | None = None
    fields: str = ""
    variants: tuple[Variant, ...] = ("good", "bad", "ids")


def topic_of(each: OrderFormat, variant: Variant) -> str:
    return f"formats_{FORMATS.index(each)}_{variant}"


def _avro(records: int) -> Iterator[bytes]:
    return (value[FRAME_BYTES:] for value in encoded(0, records, 0))


def _avro_schema(version: int) -> str:
    return json.dumps({**SCHEMA, "doc": f"version {version}"})


def _protobuf(records: int) -> Iterator[bytes]:
    return protobuf_orders(parse_protobuf(PROTO).message, records)


def _protobuf_schema(version: int) -> str:
    return PROTO.replace("message Order {", f"message Order {{ reserved {1000 + version};")


def _json(records: int) -> Iterator[bytes]:
    return (value[FRAME_BYTES:] for value in in_json(records))


def _json_with_undeclared(records: int) -> Iterator[bytes]:
    return (value[FRAME_BYTES:] for value in in_json(records, **UNDECLARED))


def _json_schema(version: int) -> str:
    return json.dumps({**json_schema(), "description": f"version {version}"})


def _declared_fields() -> str:
    """Return the declaration of the orders' fields, as a table spec of JSON without a schema has it."""
    fields: list[dict[str, object]] = SCHEMA["fields"]  # type: ignore[assignment]
    types = {each["name"]: each["type"] for each in fields}
    plain = {name: type_[1] if isinstance(type_, list) else type_ for name, type_ in types.items()}
    return json.dumps({str(name): "timestamptz" if name in TIMES else type_ for name, type_ in plain.items()})


AVRO = OrderFormat("Avro", "avro", _avro, "AVRO", _avro_schema)
PROTOBUF = OrderFormat(
    "Protobuf",
    "protobuf",
    _protobuf,
    "PROTOBUF",
    _protobuf_schema,
    variants=("good", "bad", "ids", "reordered"),
)
JSON_SCHEMA = OrderFormat("JSON Schema", "json_schema", _json, "JSON", _json_schema)
JSON_EXTRA = OrderFormat("JSON Schema, 3 undeclared fields", "json_schema", _json_with_undeclared, "JSON", _json_schema)
DECLARED_JSON = OrderFormat(
    "JSON, fields of the spec", "json", _json, fields=_declared_fields(), variants=("good", "bad")
)
FORMATS = (AVRO, PROTOBUF, JSON_SCHEMA, JSON_EXTRA, DECLARED_JSON)


def fill(services: LocalServices, records: int) -> dict[str, list[int]]:
    """Fill the topics, of one partition each, with the same orders. Returns their schema ids, by topic."""
    remove(services)
    topics = {topic_of(each, variant): each for each in FORMATS for variant in each.variants}
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        created.result(30)
    ids = {topic: _register(services, topic, each) for topic, each in topics.items()}
    producer = _producer(services)
    for each in FORMATS:
        _produce(producer, each, ids, each.bodies(records))
    producer.flush()
    return ids


def _register(services: LocalServices, topic: str, each: OrderFormat) -> list[int]:
    """Register as many versions as the topic has records of, and return their ids."""
    if each.schema is None or each.schema_type is None:
        return []
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    versions = SCHEMA_IDS if topic == topic_of(each, "ids") else 1
    is_reordered = topic == topic_of(each, "reordered")
    texts = [reordered_schema()] if is_reordered else [each.schema(version) for version in range(versions)]
    return [registry.register_schema(f"{topic}-value", Schema(text, each.schema_type)) for text in texts]


def _producer(services: LocalServices) -> Producer:
    return Producer(
        {
            "bootstrap.servers": services.bootstrap_servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 500_000,
        }
    )


def _produce(producer: Producer, each: OrderFormat, ids: dict[str, list[int]], bodies: Iterable[bytes]) -> None:
    names = {variant: topic_of(each, variant) for variant in each.variants}
    for number, body in enumerate(bodies):
        for variant, topic in names.items():
            _send(producer, topic, payload(variant, number, body, ids[topic]), number)
        if number % 1000 == 0:
            producer.poll(0)


def _send(producer: Producer, topic: str, value: bytes, number: int) -> None:
    while True:
        try:
            producer.produce(topic, value, b"customer-%06d" % (number % 100_000), 0)
            return
        except BufferError:
            producer.poll(0.1)


def payload(variant: Variant, number: int, body: bytes, ids: Sequence[int]) -> bytes:
    """Return a record's value in its wire format; it has none without schema ids."""
    framed = struct.pack(">bI", 0, ids[number % len(ids)]) if ids else b""
    if variant == "reordered":
        return framed + reordered(body)
    if variant != "bad" or number % BAD_EVERY:
        return framed + body
    forms = (framed + body[:-1], framed + b"\xff" * 100, b"\x01 is not framed, and no JSON")
    return forms[number // BAD_EVERY % len(forms)]


def remove(services: LocalServices) -> None:
    """Delete the topics that exist."""
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    doomed = [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith("formats_")]
    for deleted in admin.delete_topics(doomed).values() if doomed else ():
        deleted.result(60)
