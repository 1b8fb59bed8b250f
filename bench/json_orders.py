"""The benchmark's orders as JSON, about 480 bytes each, and their JSON Schema."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bench.orders import SCHEMA, order

FRAME = b"\0\0\0\0\1"
TIMES = ("created_at", "updated_at")
UNDECLARED = {"source": "mobile app", "flags": [1, 2], "trace": {"id": "0af7651916cd43dd8448eb211c80319c"}}
_TYPES: dict[str, dict[str, Any]] = {
    "long": {"type": "integer"},
    "int": {"type": "integer", "connect.type": "int32"},
    "float": {"type": "number", "connect.type": "float32"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the benchmark's orders."""
    fields: Any = SCHEMA["fields"]
    return {"type": "object", "title": "Order", "properties": {each["name"]: _type(each["type"]) for each in fields}}


def _type(avro: Any) -> dict[str, Any]:
    if isinstance(avro, list):
        return {"oneOf": [{"type": "null"}, _type(avro[1])]}
    return {"type": "string", "format": "date-time"} if isinstance(avro, dict) else _TYPES[avro]


def in_json(records: int, **undeclared: Any) -> Iterator[bytes]:
    """Yield the orders as JSON with its header, in the order of the schema and without white space."""
    rng = random.Random(0)
    for number in range(records):
        made = order(number, rng)
        for name in TIMES:
            made[name] = _rfc3339(made[name])
        yield FRAME + json.dumps({**made, **undeclared}, separators=(",", ":")).encode()


def _rfc3339(micros: Any) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat().replace("+00:00", "Z")
