"""A table's schema from its JSON, made once: tasks, windows of offsets and small files want it each time."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

SCHEMAS = 64
"""Schemas that a process keeps, of each kind."""


@lru_cache(maxsize=SCHEMAS)
def iceberg_schema(schema_json: str) -> Schema:
    """Return the schema as the library has it."""
    return Schema.model_validate_json(schema_json)


@lru_cache(maxsize=SCHEMAS)
def arrow_schema(schema_json: str) -> pa.Schema:
    """Return the schema of Arrow, with field ids."""
    return schema_to_pyarrow(iceberg_schema(schema_json))
