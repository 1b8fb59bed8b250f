"""What do Debezium's envelopes cost: records of 20 columns decoded as they are, and envelopes of them as changes?

Prints CPU microseconds a record, the median of interleaved runs. Records are in memory; one in ten is a delete.

Usage: python -m bench.envelopes [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable, Mapping

import fastavro
import pyarrow as pa

from bench.orders import SCHEMA, encoded
from frazil.adapters.kafka.reader import CHUNK
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.formats.debezium.decoder import avro_changes
from frazil.model.change_events import ChangeEvents
from frazil.records import binary

FRAME_BYTES = 5
_TIME = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
_TEXTS = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table")
_NUMBERS = ("ts_ms", "ts_us", "ts_ns", "txId", "lsn")
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        *({"name": name, "type": "string"} for name in _TEXTS),
        *({"name": name, "type": ["null", "long"]} for name in (*_NUMBERS, "xmin")),
    ],
}
ABOUT = {
    "type": "record",
    "name": "About",
    "fields": [
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        *({"name": name, "type": ["null", "long"]} for name in ("ts_ms", "ts_us", "ts_ns")),
    ],
}
"""The fields of an envelope after the two images of the row."""


def envelope_schema() -> str:
    row = json.loads(json.dumps(SCHEMA).replace(json.dumps({"type": "long", "logicalType": "timestamp-micros"}), "{}"))
    for field in row["fields"]:
        field["type"] = json.loads(json.dumps(field["type"]).replace("{}", json.dumps(_TIME)))
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "frazil.bench.Order"]}]
    return json.dumps({"type": "record", "name": "Envelope", "fields": [*images, *ABOUT["fields"]]})


def about(op: str, number: int) -> bytes:
    texts = ("3.2.0.Final", "postgresql", "shop", "false", "shop", f'["{number}","{number + 8}"]', "public", "orders")
    numbers = (1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000, 571 + number, 24_023_128 + number)
    source = {**dict(zip(_TEXTS, texts, strict=True)), **dict(zip(_NUMBERS, numbers, strict=True)), "xmin": None}
    given = {"source": source, "op": op, "ts_ms": numbers[0], "ts_us": numbers[1], "ts_ns": numbers[2]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, _ABOUT, given)
    return written.getvalue()


_ABOUT = fastavro.parse_schema(json.loads(json.dumps(ABOUT)))
_ABSENT, _PRESENT = b"\x00", b"\x02"


def envelope(row: bytes, number: int) -> bytes:
    """Return an update, or for each tenth number a delete, as Confluent's serializer frames it."""
    frame, image = row[:FRAME_BYTES], row[FRAME_BYTES:]
    if number % 10:
        return frame + _ABSENT + _PRESENT + image + about("u", number)
    return frame + _PRESENT + image + _ABSENT + about("d", number)


def candidates(rows: list[bytes]) -> Mapping[str, Callable[[], object]]:
    plain, whole = parse_schema(json.dumps(SCHEMA)), parse_schema(envelope_schema())
    envelopes = [envelope(row, number) for number, row in enumerate(rows)]
    given, wrapped = chunks(rows), chunks(envelopes)
    as_rows, as_they_are = open_decoder(plain), open_decoder(whole)
    by_key, soft = avro_changes(whole, ChangeEvents()), avro_changes(whole, ChangeEvents(soft_deletes=True))
    return {
        "rows": lambda: [as_rows.decode(each, skip=FRAME_BYTES) for each in given],
        "envelopes as they are": lambda: [as_they_are.decode(each, skip=FRAME_BYTES) for each in wrapped],
        "envelopes as changes": lambda: [by_key.decode(each, skip=FRAME_BYTES) for each in wrapped],
        "envelopes as changes, soft deletes": lambda: [soft.decode(each, skip=FRAME_BYTES) for each in wrapped],
    }


def chunks(payloads: list[bytes]) -> list[pa.LargeBinaryArray]:
    return [binary(payloads[start : start + CHUNK]) for start in range(0, len(payloads), CHUNK)]


def micros(act: Callable[[], object], records: int) -> float:
    """Return CPU microseconds a record of one run."""
    began = time.process_time()
    act()
    return (time.process_time() - began) / records * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.envelopes", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of each")
    asked = parser.parse_args()
    measured = candidates(list(encoded(0, asked.records, 1)))
    rounds = [{name: micros(act, asked.records) for name, act in measured.items()} for _ in range(asked.rounds)]
    plain = statistics.median(taken["rows"] for taken in rounds)
    for name in measured:
        took = statistics.median(taken[name] for taken in rounds)
        print(f"{name}: {took:.3f} µs a record, {plain / took:.2f} of the rate of rows")


if __name__ == "__main__":
    main()
