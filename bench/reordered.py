"""Protobuf orders whose fields come in another order than in most topics.

Most writers order fields by their numbers, and most people number them in the order in which they declare them. Here
the schema declares them in one order, and the data has them in another; both differ from that of their numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from bench.formats import PROTO

FIELDS = 20
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def _shuffled(seed: int) -> Sequence[int]:
    numbers = list(range(1, FIELDS + 1))
    random.Random(seed).shuffle(numbers)
    return numbers


_DECLARED, _WRITTEN = _shuffled(1), _shuffled(2)


def reordered_schema() -> str:
    """Return the text of the schema with the same fields and numbers, declared in another order."""
    head, _, rest = PROTO.partition("message Order {")
    declarations = rest[: rest.index("}")].split(";")[:FIELDS]
    by_number = {int(each.rpartition("=")[2]): each for each in declarations}
    return f"{head}message Order {{{''.join(f'{by_number[number]};' for number in _DECLARED)} }}"


def reordered(body: bytes) -> bytes:
    """Return the same order with its fields in another order. The first byte is the message index."""
    fields = dict(_fields(body, 1))
    return body[:1] + b"".join(fields[number] for number in _WRITTEN if number in fields)


def _fields(message: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each field from this place on."""
    while at < len(message):
        begun = at
        tag, at = _varint(message, at)
        match tag & 7:
            case wire if wire == _VARINT:
                _, at = _varint(message, at)
            case wire if wire == _LENGTH:
                length, at = _varint(message, at)
                at += length
            case wire:
                at += {_FIXED64: 8, _FIXED32: 4}[wire]
        yield tag >> 3, message[begun:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at this place, and the place after it."""
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1
