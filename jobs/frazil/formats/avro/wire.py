"""The primitive types on the wire, as strictly as the Avro 1.12 specification allows ("Primitive Types").

Each function reads one value at a position and returns the position after it; some also return the value.
"""

from __future__ import annotations

from frazil.formats.faults import Broken, counted
from frazil.model.dead_letter import Reason


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """Read an int: zig-zag, at most 32 bits in at most 5 bytes."""
    return _varint(data, at, "an int", 5, 32)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a long: zig-zag, at most 64 bits in at most 10 bytes."""
    return _varint(data, at, "a long", 10, 64)


def _varint(data: bytes, at: int, name: str, most_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    for index in range(most_bytes):
        if at + index >= len(data):
            raise Broken(Reason.TRUNCATED, f"the payload ends inside {name}")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> bits:
                raise Broken(Reason.BAD_VARINT, f"{name} has more than {bits} bits")
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise Broken(Reason.BAD_VARINT, f"{name} takes more than {most_bytes} bytes")


def skip_bytes(data: bytes, at: int, count: int) -> int:
    """Skip a value of `count` bytes, such as a fixed, a float or a double."""
    left = len(data) - at
    if left < count:
        raise Broken(Reason.TRUNCATED, f"expected {counted(count, 'more byte')}, found {left}")
    return at + count


def read_boolean(data: bytes, at: int) -> int:
    end = skip_bytes(data, at, 1)
    if data[at] > 1:
        raise Broken(Reason.BAD_BOOLEAN, f"expected a boolean of 0 or 1, found the byte {data[at]}")
    return end


def read_bytes(data: bytes, at: int) -> tuple[int, int]:
    """Return where the bytes of a `bytes` or `string` value start, and where they end."""
    length, start = read_long(data, at)
    check_length("value", length, len(data) - start)
    return start, start + length


def check_length(what: str, length: int, left: int) -> None:
    """Raise Broken if a length in bytes is negative or more than the `left` bytes of the payload."""
    if length < 0:
        raise Broken(Reason.BAD_LENGTH, f"the length of the {what} is negative: {length}")
    if length > left:
        raise Broken(
            Reason.BAD_LENGTH, f"the {what} is {counted(length, 'byte')} long, but the payload has {left} left"
        )


def read_string(data: bytes, at: int) -> int:
    start, end = read_bytes(data, at)
    try:
        data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken(Reason.BAD_UTF8, f"the string is not valid UTF-8 at byte {error.start}") from error
    return end


def read_index(data: bytes, at: int, count: int, what: str) -> tuple[int, int]:
    """Read the index of a union's branch or of an enum's symbol; `count` is how many the schema has."""
    index, end = read_int(data, at)
    if not 0 <= index < count:
        raise Broken(Reason.BAD_INDEX, f"expected a {what} index of at least 0 and less than {count}, found {index}")
    return index, end
