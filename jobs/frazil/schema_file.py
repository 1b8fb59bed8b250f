"""Schemas in files: the text of a schema, or the request with which a producer registers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frazil.model.errors import Misuse
from frazil.model.schemas import SchemaDefinition, SchemaType, SubjectVersion

REGISTERED: tuple[SchemaType, ...] = ("AVRO", "PROTOBUF", "JSON")
_HINT = "write the schema, or the JSON that is posted to the registry: schema, schemaType, references"


def read_schema_file(path: Path, schema_type: SchemaType) -> SchemaDefinition:
    """Return the schema in a file. `schema_type` is that of a file without `schemaType`.

    Raises Misuse if the file cannot be read, if `schemaType` is unknown, or if a reference has no name, subject or
    version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"could not read the schema {path}: {problem}", hint=_HINT) from problem
    request = _request_in(text)
    if request is None:
        return SchemaDefinition(schema_type, text)
    named = request.get("schemaType") or "AVRO"  # as in the registry, also for null
    registered = next((each for each in REGISTERED if each == named), None)
    if registered is None:
        raise Misuse(f"{path}: schemaType is {named!r}: expected AVRO, PROTOBUF or JSON", hint=_HINT)
    try:
        references = tuple(
            SubjectVersion(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in request.get("references") or ()
        )
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise Misuse(f"{path}: a reference needs a name, a subject and a version", hint=_HINT) from problem
    return SchemaDefinition(registered, request["schema"], references)


def _request_in(text: str) -> Mapping[str, Any] | None:
    """Return the registry's request in a file; None if it is a schema, whose `schema` would not be text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("schema"), str) else None
