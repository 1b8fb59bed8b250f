"""The required columns of an adopted table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from frazil.model.schemas import SchemaFinding
from frazil.model.spec import TableSpec

NEVER_NULL = ("topic", "partition", "offset")
"""Metadata that every record has. Any other column is null for some record: of an older schema, or without a value."""


def required_findings(spec: TableSpec, schema_json: str) -> tuple[SchemaFinding, ...]:
    """Return required columns, at any depth, that a record may lack. `schema_json` is Iceberg's JSON of the schema."""
    filled = {spec.metadata.prefix + name for name in NEVER_NULL if name in spec.metadata.keep}
    problem = "required in the table, but optional in records: make the column optional first (DROP NOT NULL)"
    return tuple(SchemaFinding(path, problem) for path in _required(json.loads(schema_json), "") if path not in filled)


def _required(struct: dict[str, Any], path: str) -> Iterator[str]:
    for field in struct["fields"]:
        here = f"{path}.{field['name']}" if path else field["name"]
        if field["required"]:
            yield here
        yield from _inside(field["type"], here)


def _inside(kind: Any, path: str) -> Iterator[str]:
    match kind:
        case {"type": "struct"}:
            yield from _required(kind, path)
        case {"type": "list", "element": element, "element-required": required}:
            yield from _part(element, f"{path}[]", required)
        case {"type": "map", "value": value, "value-required": required}:
            yield from _part(value, f"{path}{{}}", required)
        case _:
            return


def _part(kind: Any, path: str, required: bool) -> Iterator[str]:
    if required:
        yield path
    yield from _inside(kind, path)
