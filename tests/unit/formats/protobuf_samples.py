"""Schemas and payloads of Protobuf for tests, made with google.protobuf."""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from frazil.formats.native import Engine
from frazil.formats.protobuf.open import open_decoder
from frazil.formats.protobuf.schema import ProtobufSchema, parse_schema
from frazil.formats.python_values import python_values
from frazil.model.dead_letter import Reject
from frazil.records import binary

FIRST = b"\0"
"""The message index of the first message of a file."""


def proto3(body: str, *imports: str) -> ProtobufSchema:
    """A file with the message Row, which has this body; what is after `---` follows the message."""
    return parse_schema(text_of(body, *imports))


def text_of(body: str, *imports: str, syntax: str = "proto3") -> str:
    body, _, after = body.partition("---")
    lines = (f'import "{each}";' for each in imports)
    return f'syntax = "{syntax}"; package t; {"".join(lines)} message Row {{ {body} }} {after}'


def message(schema: ProtobufSchema, **fields: Any) -> Any:
    """The schema's message, by google.protobuf."""
    return GetMessageClass(schema.message)(**fields)


def payload(of: Any) -> bytes:
    return FIRST + bytes(of.SerializeToString())


def rows(schema: ProtobufSchema, engine: Engine, *payloads: bytes) -> list[dict[str, Any]]:
    """The rows, all of them accepted."""
    decoded = open_decoder(schema, engine).decode(binary(list(payloads)))
    assert decoded.rejects == ()
    columns = [python_values(column) for column in decoded.rows.columns]
    return [dict(zip(decoded.rows.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def rejects(schema: ProtobufSchema, engine: Engine, *payloads: bytes) -> tuple[Reject, ...]:
    return open_decoder(schema, engine).decode(binary(list(payloads))).rejects


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def tagged(number: int, wire: int, value: bytes) -> bytes:
    return varint(number << 3 | wire) + value


def sized(number: int, value: bytes) -> bytes:
    return tagged(number, 2, varint(len(value)) + value)
