"""How long does it take to decode the same orders from each value format?

Prints CPU microseconds a record, the least of a few interleaved runs, with both decoders of each format.

Usage: python -m bench.formats [--records N]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from bench.json_orders import UNDECLARED, in_json, json_schema
from bench.orders import SCHEMA, encoded, order
from frazil.adapters.kafka.reader import CHUNK
from frazil.formats.avro.open import open_decoder as open_avro
from frazil.formats.avro.schema import parse_schema as parse_avro
from frazil.formats.decoder import Decoder
from frazil.formats.json_schema.schema import expand
from frazil.formats.json_values.open import open_decoder as open_json
from frazil.formats.protobuf.open import open_decoder as open_protobuf
from frazil.formats.protobuf.schema import parse_schema as parse_protobuf
from frazil.records import binary

REPEATS = 7
SHARE_IN_PYTHON = 20
"""The decoders in Python get one record of so many: they take much longer."""

PROTO = """
    syntax = "proto3"; package frazil.bench; import "google/protobuf/timestamp.proto";
    message Order {
      int64 order_id = 1; int64 customer_id = 2; string sku = 3; optional string status = 4; int32 qty = 5;
      double price = 6; optional double discount = 7; string currency = 8; string country = 9;
      optional string city = 10; google.protobuf.Timestamp created_at = 11; google.protobuf.Timestamp updated_at = 12;
      bool is_gift = 13; optional bool is_paid = 14; string channel = 15; optional string campaign = 16;
      optional string email = 17; string session_id = 18; optional float score = 19; optional string note = 20;
    }
"""
TIMES = ("created_at", "updated_at")


@dataclass(frozen=True)
class Candidate:
    """A decoder and what it decodes, each from byte `skip` on."""

    name: str
    decoder: Decoder
    payloads: list[bytes]
    skip: int


def candidates(records: int) -> Iterator[Candidate]:
    avro, protobuf = parse_avro(json.dumps(SCHEMA)), parse_protobuf(PROTO)
    in_avro, in_protobuf = list(encoded(0, records, 1)), list(protobuf_orders(protobuf.message, records))
    row, orders_in_json = expand(json.dumps(json_schema())).row, list(in_json(records))
    few = records // SHARE_IN_PYTHON
    yield Candidate("avro, native", open_avro(avro, "native"), in_avro, 5)
    yield Candidate("protobuf, native", open_protobuf(protobuf, "native"), in_protobuf, 0)
    yield Candidate("json, native", open_json(row, "native"), orders_in_json, 5)
    with_undeclared = list(in_json(records, **UNDECLARED))
    yield Candidate("json with 3 undeclared fields, native", open_json(row, "native"), with_undeclared, 5)
    yield Candidate("avro, fallback", open_avro(avro, "fallback"), in_avro[:few], 5)
    yield Candidate("protobuf, fallback", open_protobuf(protobuf, "fallback"), in_protobuf[:few], 0)
    yield Candidate("json, fallback", open_json(row, "fallback"), orders_in_json[:few], 5)


def protobuf_orders(descriptor: Any, records: int) -> Iterator[bytes]:
    """Yield the orders as Confluent's serializer writes them, without the five bytes of the frame."""
    rng, order_class = random.Random(0), GetMessageClass(descriptor)
    for number in range(records):
        made = order_class()
        for name, value in _with_values(order(number, rng)).items():
            if name in TIMES:
                getattr(made, name).FromMicroseconds(value)
            else:
                setattr(made, name, value)
        yield b"\0" + made.SerializeToString()


def _with_values(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def micros(each: Candidate) -> float:
    """Return CPU microseconds a record of one run."""
    chunks = [binary(each.payloads[start : start + CHUNK]) for start in range(0, len(each.payloads), CHUNK)]
    began = time.process_time()
    decoded = [each.decoder.decode(chunk, skip=each.skip) for chunk in chunks]
    took = time.process_time() - began
    assert sum(one.rows.num_rows for one in decoded) == len(each.payloads)
    return took / len(each.payloads) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.formats", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records of each format")
    found = list(candidates(parser.parse_args().records))
    rounds = [[micros(each) for each in found] for _ in range(REPEATS)]
    for place, each in enumerate(found):
        size = sum(map(len, each.payloads)) / len(each.payloads)
        print(f"{each.name}: {min(taken[place] for taken in rounds):.3f} µs a record of {size:.0f} bytes")


if __name__ == "__main__":
    main()
