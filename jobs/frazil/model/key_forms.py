"""Whether one identity may have several keys, for Kafka: its compaction compares bytes, and a table compares values."""

from __future__ import annotations

from collections.abc import Collection

from frazil.model.columns import Column, Decimal, walk
from frazil.model.schemas import SchemaId
from frazil.model.spec import KeyFormat, TableSpec

ONE_FORM: tuple[KeyFormat, ...] = ("none", "bytes", "string", "json", "avro")
"""Formats that write a value in one way, with one schema. `json` keeps the text, whose bytes are the identity.

JSON with a schema may have its fields in any order and spaces between them, and Protobuf its fields in any order.
"""


def has_several_forms(spec: TableSpec, schema_ids: Collection[SchemaId], columns: Collection[Column]) -> bool:
    """Return whether keys of different bytes may be of one identity. The keys were written with these schemas.

    Glue's format compresses keys or not, and Avro writes a decimal with any number of leading zeros. Where parts of
    the key are the identity, its keys may differ in the others.
    """
    if spec.identity or spec.key not in ONE_FORM or len(schema_ids) > 1:
        return True
    return spec.key == "avro" and (spec.wire_format == "glue" or _holds_a_decimal(spec, columns))


def _holds_a_decimal(spec: TableSpec, columns: Collection[Column]) -> bool:
    of_key = tuple(each for each in columns if each.name == f"{spec.metadata.prefix}key")
    return any(isinstance(each.type, Decimal) for _, each in walk(of_key))
