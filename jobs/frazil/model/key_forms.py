"""Whether one identity may have several keys, for Kafka: its compaction compares bytes, and a table compares values."""

from __future__ import annotations

from collections.abc import Collection

from frazil.model.schemas import SchemaId
from frazil.model.spec import KeyFormat

ONE_FORM: tuple[KeyFormat, ...] = ("none", "bytes", "string", "json", "avro")
"""Formats that write a value in one way, with one schema. `json` keeps the text, whose bytes are the identity.

JSON with a schema may have its fields in any order and spaces between them, and Protobuf its fields in any order.
"""


def has_several_forms(key: KeyFormat, schema_ids: Collection[SchemaId]) -> bool:
    """Return whether keys of different bytes may be of one identity. The keys were written with these schemas."""
    return key not in ONE_FORM or len(schema_ids) > 1
