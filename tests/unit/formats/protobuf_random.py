"""Random schemas, messages and mutations of payloads, and what google.protobuf reads from them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from random import Random
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from frazil.formats.protobuf.schema import ProtobufSchema, parse_schema

IMPORTS = ("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto")
INTEGERS = {
    "int32": (-(2**31), 2**31 - 1), "sint32": (-(2**31), 2**31 - 1), "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1), "fixed32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1), "sfixed64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}  # fmt: skip
SCALARS = (*INTEGERS, "float", "double", "bool", "string", "bytes")
KEYS = (*INTEGERS, "bool", "string")
OTHERS = ("E", "google.protobuf.Timestamp", "google.protobuf.Int64Value", "google.protobuf.StringValue", "Empty")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def random_schema(random: Random) -> ProtobufSchema:
    messages = "".join(f"message M{level} {{ {_body(random, level)} }}" for level in (2, 1))
    imports = "".join(f'import "{each}";' for each in IMPORTS)
    enum = "enum E { ZERO = 0; ONE = 1; MINUS = -1; FAR = 100000; } message Empty {}"
    return parse_schema(f'syntax = "proto3"; {imports} message Row {{ {_body(random, 0)} }} {messages} {enum}')


def _body(random: Random, level: int) -> str:
    return " ".join(_fields(random, level))


def _fields(random: Random, level: int) -> Iterator[str]:
    count = random.randint(1, 7)
    numbers = random.sample([*range(1, 20), 1023, 1024, 1025, 2**29 - 1], count + 3)
    for place in range(count):
        kind, label = _kind(random, level), random.choice(("", "", "optional ", "repeated ", "map"))
        if label == "map":
            kind, label = f"map<{random.choice(KEYS)}, {kind}>", ""
        packed = " [packed = false]" if label == "repeated " and random.random() < 0.3 and kind in INTEGERS else ""
        yield f"{label}{kind} f{place} = {numbers[place]}{packed};"
    if random.random() < 0.5:
        members = (f"{_kind(random, level)} o{place} = {numbers[count + place]};" for place in range(3))
        yield f"oneof choice {{ {' '.join(members)} }}"


def _kind(random: Random, level: int) -> str:
    inner = [f"M{level + 1}"] if level < 2 else []
    return random.choice((*SCALARS, *OTHERS, *inner, *inner))


def filled(random: Random, message: Any) -> Any:
    """The message with random values in some of its fields."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.7:
            _fill(random, message, field)
    return message


def _fill(random: Random, message: Any, field: Any) -> None:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        for _ in range(random.randint(0, 3)):
            if value.message_type is None:
                held[_scalar(random, key)] = _scalar(random, value)
            else:
                _fill_message(random, held[_scalar(random, key)])
    elif field.label == field.LABEL_REPEATED:
        for _ in range(random.randint(0, 4)):
            if field.message_type is None:
                held.append(_scalar(random, field))
            else:
                _fill_message(random, held.add())
    elif field.message_type is not None:
        held.SetInParent()
        _fill_message(random, held)
    else:
        setattr(message, field.name, _scalar(random, field))


def _fill_message(random: Random, message: Any) -> None:
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.seconds = random.choice((0, -62_135_596_800, 253_402_300_799, random.randint(-(10**9), 10**10)))
        message.nanos = random.choice((0, 1_000, 999_999_999))
    else:
        filled(random, message)


def _scalar(random: Random, field: Any) -> Any:
    name = next(
        name[5:].lower() for name in dir(field) if name.startswith("TYPE_") and getattr(field, name) == field.type
    )
    if name in INTEGERS:
        least, most = INTEGERS[name]
        return random.choice((0, 1, least, most, random.randint(least, most), min(most, 300)))
    if name == "float":
        return struct.unpack("<f", random.randbytes(4))[0]
    choices: dict[str, list[Any]] = {
        "double": [0.0, -0.0, 1e300, math.inf, math.nan, random.random()],
        "bool": [False, True],
        "string": ["", "a", "üß\0", "x" * 200],
        "bytes": [b"", b"\xff", random.randbytes(5)],
        "enum": [0, 1, -1, 100_000, 7, -5],
    }
    return random.choice(choices[name])


def mutated(random: Random, payload: bytes) -> bytes:
    """The payload with one to three changes, such as bytes that are flipped, missing or repeated."""
    data = bytearray(payload)
    for _ in range(random.randint(1, 3)):
        at, end = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
        match random.randint(0, 5):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randint(0, 7)
            case 1 if at < len(data):
                data[at] = random.randint(0, 255)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                data += data[at:end]
            case _:
                data[at:at] = random.randbytes(random.randint(1, 3))
    return bytes(data)


def row_of(message: Any) -> dict[str, Any]:
    """The columns that a message of google.protobuf should become."""
    return {field.name: _column(message, field) for field in message.DESCRIPTOR.fields}


def _column(message: Any, field: Any) -> Any:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return {_value(each, key): _value(held[each], value) for each in held}
    if field.label == field.LABEL_REPEATED:
        return [_value(each, field) for each in held]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(held, field)


def _value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is not None:
        return _message(value, field.message_type.full_name)
    return Decimal(value) if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64) else value


def _message(value: Any, name: str) -> Any:
    if name == "Empty":
        return {"present": True}
    if name == "google.protobuf.Timestamp":
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return value.value if name.startswith("google.protobuf.") else row_of(value)


def has_unread_entries(message: Any) -> bool:
    """Whether google.protobuf left out entries of maps: those with an unknown field, which other libraries read."""
    known = message.DESCRIPTOR.fields_by_number
    if any(each.field_number in known for each in UnknownFieldSet(message)):
        return True
    inside = (getattr(message, field.name) for field, _ in message.ListFields() if field.message_type is not None)
    return any(map(has_unread_entries, chain.from_iterable(map(_messages, inside))))


def _messages(held: Any) -> list[Any]:
    if isinstance(held, Message):
        return [held]
    values = held.values() if hasattr(held, "values") else held
    return [each for each in values if isinstance(each, Message)]


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal, where NaN equals itself and -0.0 is not 0.0. Maps may be lists of pairs."""
    if isinstance(expected, dict):
        there = dict(found)
        return there.keys() == expected.keys() and all(same(there[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return repr(found) == repr(expected)
    return bool(found == expected)
