"""Read the metadata in an Avro file's header, and no records (Avro specification, "Object Container Files")."""

from __future__ import annotations

from typing import Protocol

MAGIC = b"Obj\x01"
CHUNK = 64 << 10
LONGEST = 256 << 20
"""No header is longer than this many bytes: a damaged length must not fill the memory."""


class ByteStream(Protocol):
    def read(self, size: int = ...) -> bytes: ...


class NoAvroHeaderError(ValueError):
    """The bytes are not those of an Avro file."""


def read_header(stream: ByteStream) -> dict[str, bytes]:
    """Return the header's metadata by key. Raises NoAvroHeaderError."""
    source = _Chunks(stream)
    if source.take(len(MAGIC)) != MAGIC:
        raise NoAvroHeaderError("not an Avro file: wrong magic bytes")
    found: dict[str, bytes] = {}
    while count := source.long():
        if count < 0:
            source.long()  # the block's size in bytes, which only a reader that skips it needs
        for _ in range(abs(count)):
            key = source.bytes().decode(errors="replace")
            found[key] = source.bytes()
    return found


class _Chunks:
    """A stream read in large steps: each read may be a request to an object store."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= LONGEST:
            raise NoAvroHeaderError(f"invalid length: {size} bytes")
        while len(self._buffer) - self._at < size:
            more = self._stream.read(max(CHUNK, size))
            if not more:
                raise NoAvroHeaderError("the file ends inside its header")
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        self._at += size
        return self._buffer[self._at - size : self._at]

    def bytes(self) -> bytes:
        return self.take(self.long())

    def long(self) -> int:
        """Return a zigzag-coded integer of variable length."""
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise NoAvroHeaderError("an integer of more than 10 bytes")
