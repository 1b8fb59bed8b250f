"""The formats whose hostile values are tried: each that a decoder of its own reads, and each frame."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from uuid import UUID

from bench import hostile_changes as changes
from bench import hostile_payloads as payloads
from bench.hostile_payloads import HostileFormat
from frazil.formats.open import remember
from frazil.model.change_events import ChangeEvents
from frazil.model.schemas import RegisteredSchema, SchemaType

_BY_LSN = ChangeEvents(connector="postgresql", kept=("source.lsn",))
_ROW_NUMBER = b"\1"
"""The place of `Row` among the messages of the schema, sorted by name: it is after `Line`."""


def _schema(kind: SchemaType, text: str) -> RegisteredSchema:
    return RegisteredSchema(1, kind, text)


def _in_glue(given: HostileFormat) -> HostileFormat:
    """Return the format as AWS Glue's serializers write it, with compressed data."""
    assert given.schema is not None
    schema = replace(given.schema, id=UUID(int=1))
    return replace(given, name=f"{given.name} of AWS Glue", schema=schema, wire_format="glue")


def _numbered(body: bytes) -> bytes:
    """Return a Protobuf payload as AWS Glue's serializers begin it: with the number of the message, not its path."""
    return _ROW_NUMBER + body[1:] if body[:1] == b"\0" else body


def _text(rng: random.Random) -> bytes:
    return rng.choice(("", "a", "Straße \U0001f9ca", "x" * 70)).encode()


def _heavy_text(rng: random.Random) -> bytes:
    """Return a long text that may end inside a character, or has a surrogate or a byte of no character in it."""
    return "é\U0001f9ca".encode() * rng.choice((1, 5_000, 20_000)) + rng.choice(
        (b"", b"\xc3", b"\xed\xa0\x80", b"\xff")
    )


AVRO = HostileFormat("Avro", "avro", _schema("AVRO", json.dumps(payloads.ROW)), payloads.avro, payloads.heavy_avro)
LINKED_AVRO = HostileFormat(
    "Avro, recursive",
    "avro",
    _schema("AVRO", json.dumps(payloads.LINKED)),
    payloads.linked_avro,
    payloads.heavy_avro,
    is_native=False,
)
PROTOBUF = HostileFormat(
    "Protobuf", "protobuf", _schema("PROTOBUF", payloads.PROTO), payloads.protobuf, payloads.heavy_protobuf
)
LINKED_PROTOBUF = replace(
    PROTOBUF, name="Protobuf, recursive", schema=_schema("PROTOBUF", payloads.LINKED_PROTO), is_native=False
)
JSON_SCHEMA = HostileFormat(
    "JSON Schema",
    "json_schema",
    _schema("JSON", json.dumps(payloads.JSON_ROW)),
    payloads.json_row,
    payloads.heavy_json,
)
DECLARED = HostileFormat(
    "JSON, fields of the spec", "json", None, payloads.json_row, payloads.heavy_json, fields=payloads.FIELDS
)
CHANGES = HostileFormat(
    "Debezium in Avro",
    "avro",
    _schema("AVRO", changes.AVRO),
    changes.avro_event,
    changes.heavy_avro_event,
    events=_BY_LSN,
)
EMBEDDED_CHANGES = HostileFormat(
    "Debezium in JSON, with schemas",
    "connect_json",
    RegisteredSchema(remember(changes.EMBEDDED), "CONNECT", changes.EMBEDDED),
    changes.json_event,
    changes.heavy_json_event,
    events=_BY_LSN,
)
DECLARED_CHANGES = replace(
    EMBEDDED_CHANGES, name="Debezium in JSON, fields of the spec", word="json", schema=None, fields=changes.FIELDS
)
HOSTILE_FORMATS = (
    AVRO,
    LINKED_AVRO,
    PROTOBUF,
    LINKED_PROTOBUF,
    JSON_SCHEMA,
    DECLARED,
    CHANGES,
    EMBEDDED_CHANGES,
    DECLARED_CHANGES,
    replace(DECLARED, name="JSON as text", fields=None),
    HostileFormat("Text", "string", None, _text, _heavy_text),
    HostileFormat("Bytes", "bytes", None, _text, _heavy_text),
    _in_glue(AVRO),
    replace(
        _in_glue(PROTOBUF),
        whole=lambda rng: _numbered(payloads.protobuf(rng)),
        heavy=lambda rng: _numbered(payloads.heavy_protobuf(rng)),
    ),
    _in_glue(JSON_SCHEMA),
)
