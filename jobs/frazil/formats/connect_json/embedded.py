"""Schemas that records have in them, by an id that is made of their text, and records grouped by them.

A process knows such a schema once it has met a record with it: no registry has it.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

import numpy as np
import pyarrow as pa

from frazil.formats.connect_json.records import by_schema
from frazil.formats.framing import Framed, Group
from frazil.formats.rejects import Rejects
from frazil.model.dead_letter import Reason
from frazil.model.schemas import RegisteredSchema, SchemaId
from frazil.records import Headers

_VERSION = 8
"""The version of UUIDs that are made in a way of one's own (RFC 9562). Registries make others."""
_EXPECTED = "expected a JSON object of schema and payload, as Kafka Connect's converter writes it with schemas.enable"

_met: dict[UUID, RegisteredSchema] = {}


def remember(text: str) -> UUID:
    """Return the id of a schema, by which this process knows it from now on."""
    digest = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | _VERSION << 4
    digest[8] = digest[8] & 0x3F | 0x80
    schema_id = UUID(bytes=bytes(digest))
    if schema_id not in _met:
        _met[schema_id] = RegisteredSchema(schema_id, "CONNECT", text)
    return schema_id


def is_embedded(schema_id: SchemaId) -> bool:
    """Return whether records have the schema with this id in them."""
    return isinstance(schema_id, UUID) and schema_id.version == _VERSION


def embedded_schema(schema_id: SchemaId) -> RegisteredSchema | None:
    """Return an embedded schema; None for any other, and for one that this process has not met."""
    return _met.get(schema_id) if isinstance(schema_id, UUID) else None


def group_by_embedded_schema(values: pa.LargeBinaryArray, headers: Headers | None = None) -> Framed:
    """Group values by the schema in each of them."""
    del headers
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    groups, unframed = list[Group](), list[Rejects]()
    for same in by_schema(values):
        if same.schema is None or same.schema == "null":
            unframed.append(Rejects.alike(same.indexes, Reason.NOT_FRAMED, _EXPECTED))
            continue
        indexes = None if len(same.indexes) == len(values) else same.indexes
        groups.append(Group(remember(same.schema), indexes, same.before, trailer_bytes=same.after))
    return Framed(tuple(groups), tuple(nulls), Rejects.joined(unframed))
