"""The primitive types on the wire, as strictly as the Avro 1.12 specification allows ("Primitive Types").

Each function reads at a position and returns where the value ends, with the value where somebody needs it.
"""

from __future__ import annotations

from frazil.model.dead_letter import Reason


class Broken(Exception):  # noqa: N818 - it never leaves the walker
    """A rule does not hold. `segments` lead to the place, innermost first."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.segments: list[str] = []


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """An int: zig-zag, at most 32 bits in at most 5 bytes."""
    return _varint(data, at, "int", 5, 32)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A long: zig-zag, at most 64 bits in at most 10 bytes."""
    return _varint(data, at, "long", 10, 64)


def _varint(data: bytes, at: int, name: str, most_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    for index in range(most_bytes):
        if at + index >= len(data):
            raise Broken(Reason.TRUNCATED, f"the bytes end inside {_an(name)}")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> bits:
                raise Broken(Reason.BAD_VARINT, f"{name} of more than {bits} bits")
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise Broken(Reason.BAD_VARINT, f"{name} longer than {most_bytes} bytes")


def _an(name: str) -> str:
    return f"an {name}" if name == "int" else f"a {name}"


def skip_bytes(data: bytes, at: int, count: int) -> int:
    """A value of a constant size: fixed, float, double."""
    left = len(data) - at
    if left < count:
        raise Broken(Reason.TRUNCATED, f"{count} bytes needed, {left} left")
    return at + count


def read_boolean(data: bytes, at: int) -> int:
    end = skip_bytes(data, at, 1)
    if data[at] > 1:
        raise Broken(Reason.BAD_BOOLEAN, f"boolean of byte {data[at]}")
    return end


def read_bytes(data: bytes, at: int) -> tuple[int, int]:
    """Where the bytes start, and where they end."""
    length, start = read_long(data, at)
    left = len(data) - start
    if not 0 <= length <= left:
        raise Broken(Reason.BAD_LENGTH, f"length {length}, {left} bytes left")
    return start, start + length


def read_string(data: bytes, at: int) -> int:
    start, end = read_bytes(data, at)
    try:
        data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken(Reason.BAD_UTF8, f"not UTF-8 from byte {error.start} on") from error
    return end


def read_index(data: bytes, at: int, count: int, what: str) -> tuple[int, int]:
    """The position of a union's branch or of an enum's symbol."""
    index, end = read_int(data, at)
    if not 0 <= index < count:
        raise Broken(Reason.BAD_INDEX, f"{what} {index} of {count}")
    return index, end
