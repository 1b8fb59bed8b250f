"""Convert Iceberg schemas to Delta's JSON, and list their columns for comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.model.delta import DeltaMetadata

FIELD_ID = "frazil.fieldId"
"""The key of Iceberg's field id in a field's metadata. Readers ignore it, so they do not match columns by id."""

_SCALARS = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamptz": "timestamp",
}


class NoPlaceInDeltaError(Exception):
    """Delta's reader version 1 has no type for a column. The message has the column's path and type."""


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column of a Delta schema, at any depth. Two columns are the same only if all three fields are equal."""

    path: str
    field_id: int | None
    type: str


def metadata_of(schema_json: str) -> DeltaMetadata:
    """Return the log's metadata for a table with this Iceberg schema. Raises NoPlaceInDeltaError."""
    fields = json.loads(schema_json)["fields"]
    return DeltaMetadata(json.dumps(_struct(fields, ""), separators=(",", ":")))


def columns_of(delta_schema: str) -> dict[str, LoggedColumn]:
    """Return every named column by its path. List elements add `[]`, map keys and values `{key}` and `{}`."""
    return {column.path: column for column in _columns(json.loads(delta_schema)["fields"], "")}


def fields_with(delta_schema: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the JSON of each top-level field that contains one of the paths."""
    wanted = set(paths)
    fields = json.loads(delta_schema)["fields"]
    return tuple(json.dumps(each) for each in fields if wanted & {column.path for column in _columns([each], "")})


def _struct(fields: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(each, path) for each in fields]}


def _field(field: Mapping[str, Any], path: str) -> dict[str, Any]:
    here = f"{path}.{field['name']}" if path else field["name"]
    comment = {"comment": field["doc"]} if field.get("doc") else {}
    metadata = {FIELD_ID: field["id"], **comment}
    return {"name": field["name"], "type": _type(field["type"], here), "nullable": True, "metadata": metadata}


def _type(iceberg: Any, path: str) -> Any:
    match iceberg:
        case {"type": "struct", "fields": fields}:
            return _struct(fields, path)
        case {"type": "list", "element": element}:
            return {"type": "array", "elementType": _type(element, f"{path}[]"), "containsNull": True}
        case {"type": "map", "key": key, "value": value}:
            kinds = {"keyType": _type(key, f"{path}{{key}}"), "valueType": _type(value, f"{path}{{}}")}
            return {"type": "map", **kinds, "valueContainsNull": True}
        case str() if iceberg in _SCALARS:
            return _SCALARS[iceberg]
        case str() if iceberg.startswith("decimal("):
            return iceberg.replace(" ", "")
        case _:
            raise NoPlaceInDeltaError(f"{path} is a {iceberg}, which Delta's reader version 1 has no type for")


def _columns(fields: Sequence[Mapping[str, Any]], path: str) -> Iterator[LoggedColumn]:
    for field in fields:
        here = f"{path}.{field['name']}" if path else field["name"]
        yield LoggedColumn(here, field["metadata"].get(FIELD_ID), _outline(field["type"]))
        yield from _inside(field["type"], here)


def _inside(delta_type: Any, path: str) -> Iterator[LoggedColumn]:
    match delta_type:
        case {"type": "struct", "fields": fields}:
            yield from _columns(fields, path)
        case {"type": "array", "elementType": element}:
            yield from _inside(element, f"{path}[]")
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _inside(key, f"{path}{{key}}")
            yield from _inside(value, f"{path}{{}}")
        case _:
            return


def _outline(delta_type: Any) -> str:
    """Return a type without the fields of its structs, which are separate columns."""
    match delta_type:
        case {"type": "struct"}:
            return "struct"
        case {"type": "array", "elementType": element}:
            return f"list<{_outline(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_outline(key)}, {_outline(value)}>"
        case _:
            return str(delta_type)
