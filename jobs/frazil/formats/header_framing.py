"""Confluent's wire format with the schema in a record header: `__value_schema_id`, or `__key_schema_id`.

The header's value is the byte 1, then the schema's GUID in 16 bytes; for Protobuf the message indexes follow. The
payload is the data alone. If a record has several such headers, the last one counts, as in Kafka's `lastHeader`. A
payload is never searched for a prefix: data may begin with a zero byte.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pyarrow as pa

from frazil.formats.faults import Broken
from frazil.formats.framing import Framed, Group, Grouping, grouped, shown
from frazil.formats.protobuf.indexes import read_indexes
from frazil.model.spelling import plural
from frazil.records import Headers

VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
GUID_BYTES = 17
"""The byte 1 and the GUID."""


def group_by_header(word: str | None, *, of_key: bool) -> Grouping:
    """Return the grouping of values, or keys, of this format by the GUID in their header; None is an unknown format."""
    return partial(_group, KEY_HEADER if of_key else VALUE_HEADER, word)


def _group(name: str, word: str | None, values: pa.LargeBinaryArray, headers: Headers) -> Framed:
    return grouped(headers.last(name.encode()), values, partial(_parsed, name, word))


def _parsed(name: str, word: str | None, held: bytes | None) -> Group | str:
    if held is None:
        return f"the record has no header {name} with a schema's GUID"
    if len(held) < GUID_BYTES:
        return f"the header {name} has {plural(len(held), 'byte')}, expected {GUID_BYTES}"
    if held[0] != 1:
        return f"the header {name} starts with byte {shown(held[0])}, expected 1"
    guid, rest = UUID(bytes=held[1:GUID_BYTES]), held[GUID_BYTES:]
    if word == "protobuf" or (word is None and rest):
        problem = _bad_indexes(rest)
    else:
        problem = f"{plural(len(rest), 'byte')} after the GUID" if rest else ""
    return f"the header {name}: {problem}" if problem else Group(guid, None, message=rest)


def _bad_indexes(rest: bytes) -> str:
    """Return what is wrong with the message indexes in a header, or an empty text."""
    if not rest:
        return "no message indexes after the GUID"
    try:
        _, end = read_indexes(rest)
    except Broken as problem:
        return problem.detail
    return f"{plural(len(rest) - end, 'byte')} after the message indexes" if end < len(rest) else ""
