"""The wire format of AWS Glue's serializers.

A byte 3, a byte that says how the data is compressed (0: not, 5: zlib), the id of the schema version in 16 bytes, then
the data.
"""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import Framed, Group, grouped, shown
from frazil.model.spelling import plural
from frazil.records import Headers

FRAME_BYTES = 18
"""The bytes before the data."""

_VERSION, _PLAIN, _ZLIB = 3, 0, 5


def group_by_version_id(values: pa.LargeBinaryArray, headers: Headers | None = None) -> Framed:
    """Group values by the id of their schema version, and by whether they are compressed."""
    del headers
    return grouped(pc.binary_slice(values, 0, FRAME_BYTES), values, _parsed)


def _parsed(start: bytes | None) -> Group | str:
    held = start or b""
    if held[:1] not in (b"", bytes([_VERSION])):
        return f"starts with byte {shown(held[0])}, expected {_VERSION}: was it written without AWS Glue's serializer?"
    if len(held) < FRAME_BYTES:
        return f"{plural(len(held), 'byte')}, expected a header of {FRAME_BYTES}"
    if held[1] not in (_PLAIN, _ZLIB):
        return f"the byte of the compression is {shown(held[1])}, expected {_PLAIN} (none) or {_ZLIB} (zlib)"
    return Group(UUID(bytes=held[2:]), None, FRAME_BYTES, is_compressed=held[1] == _ZLIB)
