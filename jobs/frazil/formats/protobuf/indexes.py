"""Message indexes: how Confluent's wire format names the message of a Protobuf schema that a payload is."""

from __future__ import annotations

from frazil.formats.faults import Broken
from frazil.formats.protobuf.wire import read_short_varint
from frazil.model.dead_letter import Reason

ONE_BYTE = 0x80
"""Numbers below this one take one byte."""

MOST_INDEXES = 100
"""The maximum number of message indexes. Protobuf's libraries support no deeper nesting of messages."""


def read_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path of indexes at the start of the data, and where it ends. No indexes mean the first message."""
    count, at = _index(data, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise Broken(Reason.BAD_INDEX, f"expected at most {MOST_INDEXES} message indexes, found {count}")
    path = [] if count else [0]
    for _ in range(count):
        index, at = _index(data, at)
        path.append(index)
    return tuple(path), at


def _index(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_short_varint(data, at, len(data), "a message index")
    return (value >> 1) ^ -(value & 1), at


def written_indexes(path: tuple[int, ...]) -> bytes:
    """Return a path as the wire format has it."""
    return b"\0" if path == (0,) else b"".join(_varint(2 * each) for each in (len(path), *path))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
