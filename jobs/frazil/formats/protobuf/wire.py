"""The wire format of Protobuf: tags, varints, lengths, and values that are skipped (protobuf.dev, "Encoding").

Each function reads at a position, up to the end of the message, and returns the position after what it read. The native
module (`native/src/protobuf/wire.rs`) implements the same rules and gives the same error messages.
"""

from __future__ import annotations

import struct

from frazil.formats.faults import Broken, counted
from frazil.formats.protobuf.scalars import FIXED32, FIXED64, ScalarName, wire_type
from frazil.model.dead_letter import Reason

GROUP, END_GROUP = 3, 4
_WIRE_NAMES = ("varint", "64-bit", "length-delimited", "start of a group", "end of a group", "32-bit")
MOST_LEVELS = 100
"""The maximum nesting of messages and groups in a payload, as in the libraries of Protobuf."""

Raw = int | float | bytes
"""A scalar that was read. A varint is not yet cut to its type's bits, nor decoded if it is zig-zag."""

_FORMATS: dict[str, str] = {
    "fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d",
}  # fmt: skip


class Levels:
    """How deep the messages and groups around a value are."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth

    def enter(self) -> None:
        self._depth += 1
        if self._depth > MOST_LEVELS + 1:
            raise Broken(Reason.TOO_LARGE, f"the payload nests messages more than {MOST_LEVELS} levels deep")

    def leave(self) -> None:
        self._depth -= 1


def read_tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Read a field's number and the wire type of its value."""
    tag, at = read_short_varint(data, at, end, "a tag")
    number, wire = tag >> 3, tag & 7
    if number == 0:
        raise Broken(Reason.BAD_TAG, "the field number is 0")
    if wire > FIXED32:
        raise Broken(Reason.BAD_TAG, f"the wire type {wire} of field {number} does not exist")
    return number, wire, at


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    return _varint(data, at, end, "a varint", 10, 64)


def read_short_varint(data: bytes, at: int, end: int, name: str) -> tuple[int, int]:
    """Read a varint of at most 5 bytes and 32 bits."""
    return _varint(data, at, end, name, 5, 32)


def _varint(data: bytes, at: int, end: int, name: str, most_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    for index in range(most_bytes):
        if at + index >= end:
            raise Broken(Reason.TRUNCATED, f"the message ends inside {name}")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> bits:
                raise Broken(Reason.BAD_VARINT, f"{name} has more than {bits} bits")
            return value, at + index + 1
    raise Broken(Reason.BAD_VARINT, f"{name} takes more than {most_bytes} bytes")


def read_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a length and return where the bytes after it start and end."""
    length, start = read_short_varint(data, at, end, "a length")
    if length > end - start:
        said = counted(length, "byte")
        raise Broken(Reason.BAD_LENGTH, f"the value is {said} long, but the message has {end - start} left")
    return start, start + length


def _fixed(at: int, end: int, size: int) -> int:
    if end - at < size:
        raise Broken(Reason.TRUNCATED, f"expected {counted(size, 'more byte')}, found {end - at}")
    return at + size


def read_scalar(data: bytes, scalar: ScalarName, at: int, end: int) -> tuple[Raw, int]:
    """Read one value of a scalar type, without its tag."""
    match wire_type(scalar):
        case 0:
            return read_varint(data, at, end)
        case 2:
            start, after = read_length(data, at, end)
            if scalar == "string":
                _check_utf8(data[start:after])
            return data[start:after], after
        case wire:
            after = _fixed(at, end, 8 if wire == FIXED64 else 4)
            (value,) = struct.unpack(_FORMATS[scalar], data[at:after])
            return value, after


def _check_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise Broken(Reason.BAD_UTF8, f"the string is not valid UTF-8 at byte {error.start}") from error


def expect(wire: int, expected: int) -> None:
    """Check the wire type of a known field."""
    if wire != expected:
        wanted, found = (f"{each} ({_WIRE_NAMES[each]})" for each in (expected, wire))
        raise Broken(Reason.BAD_TAG, f"expected the wire type {wanted}, found {found}")


def skip(data: bytes, number: int, wire: int, at: int, end: int, levels: Levels | None = None) -> int:
    """Skip the value of an unknown field, which is well-formed nevertheless."""
    match wire:
        case 0:
            return read_varint(data, at, end)[1]
        case 1:
            return _fixed(at, end, 8)
        case 2:
            return read_length(data, at, end)[1]
        case 5:
            return _fixed(at, end, 4)
        case 3:
            return _skip_group(data, number, at, end, levels or Levels())
        case _:
            raise Broken(Reason.BAD_TAG, f"the end of a group {number} that did not begin")


def _skip_group(data: bytes, number: int, at: int, end: int, levels: Levels) -> int:
    levels.enter()
    while at < end:
        inner, wire, at = read_tag(data, at, end)
        if wire == END_GROUP and inner == number:
            levels.leave()
            return at
        at = skip(data, inner, wire, at, end, levels)
    raise Broken(Reason.TRUNCATED, f"the message ends inside the group {number}")
