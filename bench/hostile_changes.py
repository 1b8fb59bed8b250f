"""Hostile change events of Debezium: envelopes in Avro, and in JSON with and without a schema."""

from __future__ import annotations

import io
import json
import random
from functools import cache
from typing import Any

import fastavro

from bench.hostile_payloads import DEPTHS, HUGE, zigzag
from tests.fakes.connect_samples import LONG, STRING, avro_schema, json_value, optional, struct
from tests.fakes.debezium_samples import ORDER, UNAVAILABLE, Event, order, postgres

_ROW = optional(struct("shop.public.orders.Value", **ORDER))
_SOURCE = struct("io.debezium.connector.postgresql.Source", connector=STRING, ts_ms=LONG, lsn=optional(LONG))
ENVELOPE = struct("shop.public.orders.Envelope", before=_ROW, after=_ROW, source=_SOURCE, op=STRING)
"""What changes are made of. The schema is in each value in JSON, whose memory the rest would double."""
AVRO = avro_schema(ENVELOPE)
EMBEDDED = json.dumps(ENVELOPE, separators=(",", ":"))
FIELDS = {
    "id": "long",
    "placed": "io.debezium.time.MicroTimestamp",
    "day": "io.debezium.time.Date",
    "total": "decimal(10, 2)",
    "notes": "string",
    "tags": ["string"],
}
"""Some of the columns of an order: the others are kept in `_extra`."""
_OPERATIONS = "rccuuddtmx"
"""One of them does not exist. Truncates and messages have no image."""


@cache
def _parsed() -> Any:
    stored = json.loads(AVRO)
    _without_decimals(stored)
    return fastavro.parse_schema(stored)


def _without_decimals(schema: Any) -> None:
    """Let fastavro take the bytes of a decimal."""
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _without_decimals(each)
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        del schema["logicalType"]


def _event(rng: random.Random) -> Event:
    row = {
        **order(rng.getrandbits(31)),
        "day": rng.choice((None, 0, 1, 19_675, 19_676, -800_000)),
        "ref": rng.choice((None, *["5b2c5a7e-3f6d-4b52-9b1e-0d6f1f0a9c11"] * 5, "no uuid")),
        "total": rng.choice((None, rng.randbytes(rng.randrange(1, 7)))),
        "notes": rng.choice((None, "", "Straße \U0001f9ca", "x" * 70)),
        "photo": rng.choice((None, rng.randbytes(9))),
        "tags": rng.choice((None, [], ["a", None])),
        "counts": rng.choice((None, [1, None, 3])),
        **(UNAVAILABLE if rng.random() < 0.2 else {}),
    }
    op = rng.choice(_OPERATIONS)
    images = {"before": row if op in "ud" else None, "after": row if op in "rcux" else None}
    return postgres(op, lsn=rng.getrandbits(40), **images)


def avro_event(rng: random.Random) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(), _event(rng))
    return out.getvalue()


def json_event(rng: random.Random) -> bytes:
    return json.dumps(json_value(ENVELOPE, _event(rng)), separators=(",", ":")).encode()


def heavy_avro_event(rng: random.Random) -> bytes:
    """Return an event with a length of many digits, or with as many tags without a value as fit."""
    whole, huge = avro_event(rng), zigzag(rng.choice((1, -1)) * rng.choice(HUGE))
    match rng.randrange(3):
        case 0:
            return whole[: rng.randrange(len(whole))] + huge
        case 1:
            return b"\0\2\2\2\0\0\0\0\0" + b"\2" + zigzag(20_000) + b"\0" * 20_000 + whole
        case _:
            return b"\0\2\2\2\0\0\0\0\0" + b"\2" + huge + b"\0" * 20


def heavy_json_event(rng: random.Random) -> bytes:
    """Return an event that is deep, or has numbers of many digits or long texts, in an image or beside it."""
    depth, digits = rng.choice(DEPTHS), b"9" * rng.choice((19, 20, 400, 5_000))
    bodies = (
        b"[" * depth + b"]" * rng.choice((depth, depth - 1)),
        b'{"after":' * depth + b"1" + b"}" * depth,
        digits,
        b"1e" + digits,
        b'"' + b"\\u00e9" * 10_000 + rng.choice((b'"', b"")),
        b"[" + b"null," * 20_000 + b"null]",
    )
    name = rng.choice((b"id", b"day", b"total", b"tags", b"notes", b"other"))
    image = b'{"id":1,"placed":1,"' + name + b'":' + rng.choice(bodies) + b"}"
    source = rng.choice((b'{"connector":"postgresql","ts_ms":1}', rng.choice(bodies)))
    return b'{"before":null,"after":' + image + b',"source":' + source + b',"op":"c"}'
