"""How long does it take to decode the same orders from Avro and from JSON, with and without undeclared fields?

Prints CPU microseconds a record of the native decoders, the least of a few interleaved runs.

Usage: python -m bench.json_orders [--records N]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bench.orders import SCHEMA, encoded, order
from frazil.formats.avro.open import open_decoder as open_avro
from frazil.formats.avro.schema import parse_schema
from frazil.formats.decoder import Decoder
from frazil.formats.json_schema.schema import expand
from frazil.formats.json_values.open import open_decoder as open_json
from frazil.records import binary

CHUNK = 20_000
REPEATS = 7
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


def micros(decoder: Decoder, payloads: list[bytes]) -> float:
    """Return CPU microseconds a record of one run."""
    chunks = [binary(payloads[start : start + CHUNK]) for start in range(0, len(payloads), CHUNK)]
    began = time.process_time()
    decoded = [decoder.decode(chunk, skip=len(FRAME)) for chunk in chunks]
    took = time.process_time() - began
    assert sum(each.rows.num_rows for each in decoded) == len(payloads)
    return took / len(payloads) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.json_orders", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records of each format")
    count = parser.parse_args().records
    from_json = open_json(expand(json.dumps(json_schema())).row, "native")
    found = {
        "avro": (open_avro(parse_schema(json.dumps(SCHEMA)), "native"), list(encoded(0, count, 1))),
        "json": (from_json, list(in_json(count))),
        "json with 3 undeclared fields": (from_json, list(in_json(count, **UNDECLARED))),
    }
    rounds = [{name: micros(*each) for name, each in found.items()} for _ in range(REPEATS)]
    for name, (_, payloads) in found.items():
        size = sum(map(len, payloads)) / len(payloads)
        print(f"{name}: {min(each[name] for each in rounds):.3f} µs a record of {size:.0f} bytes")


if __name__ == "__main__":
    main()
