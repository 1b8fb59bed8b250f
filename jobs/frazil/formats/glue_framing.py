"""The wire format of AWS Glue's serializers (`model/glue_frame.py`)."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import Framed, Group, grouped, shown
from frazil.model.glue_frame import FRAME_BYTES, PLAIN, VERSION, ZLIB
from frazil.model.spelling import plural
from frazil.records import Headers


def group_by_version_id(values: pa.LargeBinaryArray, headers: Headers | None = None) -> Framed:
    """Group values by the id of their schema version, and by whether they are compressed."""
    del headers
    return grouped(pc.binary_slice(values, 0, FRAME_BYTES), values, _parsed)


def _parsed(start: bytes | None) -> Group | str:
    held = start or b""
    if held[:1] not in (b"", bytes([VERSION])):
        return f"starts with byte {shown(held[0])}, expected {VERSION}: was it written without AWS Glue's serializer?"
    if len(held) < FRAME_BYTES:
        return f"{plural(len(held), 'byte')}, expected a header of {FRAME_BYTES}"
    if held[1] not in (PLAIN, ZLIB):
        return f"the byte of the compression is {shown(held[1])}, expected {PLAIN} (none) or {ZLIB} (zlib)"
    return Group(UUID(bytes=held[2:]), None, FRAME_BYTES, is_compressed=held[1] == ZLIB)
