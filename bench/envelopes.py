"""What do Debezium's envelopes cost: records of 20 columns decoded as they are, and envelopes of them as changes?

CPU microseconds a record, the median of interleaved runs, from memory and read from a broker. One record in ten is a
delete. The result goes to RESULTS.md.

Usage: python -m bench.envelopes [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

import fastavro
import pyarrow as pa

from bench.fetch import ONLY_VALUES, Shape, fill
from bench.orders import SCHEMA, encoded
from bench.sections import put
from frazil.adapters.kafka.reader import CHUNK, KafkaReader
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.formats.debezium.decoder import avro_changes
from frazil.formats.decoder import Decoder
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.model.change_events import ChangeEvents
from frazil.model.plan import OffsetRange
from frazil.records import binary

HOME = Path(".frazil/bench-envelopes")
TITLE = "Change events"
ROWS, ENVELOPES = "rows", "envelopes"
Round: TypeAlias = dict[str, tuple[float, float]]
FRAME_BYTES = 5
_TIME = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
_NUMBERS = ("ts_ms", "ts_us", "ts_ns", "txId", "lsn")
_SOURCE = [
    "version",
    "connector",
    "name",
    "ts_ms",
    "snapshot",
    "db",
    "sequence",
    "ts_us",
    "ts_ns",
    "schema",
    "table",
    "txId",
    "lsn",
    "xmin",
]
"""The fields of Debezium's connector for PostgreSQL, in its order."""
_TEXTS = tuple(name for name in _SOURCE if name not in (*_NUMBERS, "xmin"))
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [{"name": name, "type": "string" if name in _TEXTS else ["null", "long"]} for name in _SOURCE],
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
    micros = 1_700_000_000_000_000 + 997 * number
    numbers = (micros // 1000, micros, micros * 1000, 571 + number, 24_023_128 + number)
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """Records of one topic, and what becomes of them."""

    name: str
    topic: str
    decoder: Decoder


def candidates() -> list[Candidate]:
    plain, whole = parse_schema(json.dumps(SCHEMA)), parse_schema(envelope_schema())
    soft, by_source = ChangeEvents(soft_deletes=True), ChangeEvents(connector="postgresql")
    return [
        Candidate("rows", ROWS, open_decoder(plain)),
        Candidate("envelopes as they are", ENVELOPES, open_decoder(whole)),
        Candidate("envelopes as changes", ENVELOPES, avro_changes(whole, ChangeEvents())),
        Candidate("envelopes as changes, soft deletes", ENVELOPES, avro_changes(whole, soft)),
        Candidate("envelopes as changes, the source orders", ENVELOPES, avro_changes(whole, by_source)),
    ]


def chunks(payloads: list[bytes]) -> list[pa.LargeBinaryArray]:
    return [binary(payloads[start : start + CHUNK]) for start in range(0, len(payloads), CHUNK)]


def from_memory(candidate: Candidate, given: Mapping[str, list[pa.LargeBinaryArray]]) -> None:
    for each in given[candidate.topic]:
        candidate.decoder.decode(each, skip=FRAME_BYTES)


def from_kafka(candidate: Candidate, services: LocalServices, records: int) -> None:
    whole = OffsetRange(candidate.topic, 0, 0, records, records, 1 << 60)
    with closing(KafkaReader({"bootstrap.servers": services.bootstrap_servers})) as reader:
        for read in reader.read([whole], ONLY_VALUES):
            for chunk in read:
                candidate.decoder.decode(chunk.values, skip=FRAME_BYTES)


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
    rows = list(encoded(0, asked.records, 1))
    sent = {ROWS: rows, ENVELOPES: [envelope(row, number) for number, row in enumerate(rows)]}
    down(HOME, wipe=True)
    try:
        services = up(services=("broker",), directory=HOME, preferred_ports=ANY_FREE_PORTS)
        for topic, values in sent.items():
            fill(services, topic, iter(values), Shape(topic, 0))
        found = rounds(services, sent, asked)
    finally:
        down(HOME, wipe=True)
    put(TITLE, report(asked, found))


def rounds(services: LocalServices, sent: Mapping[str, list[bytes]], asked: argparse.Namespace) -> list[Round]:
    """Return what each candidate took in each round, from memory and from Kafka."""
    given = {topic: chunks(values) for topic, values in sent.items()}
    found = []
    for _ in range(asked.rounds):
        took: Round = {}
        for each in candidates():
            decoded = micros(partial(from_memory, each, given), asked.records)
            took[each.name] = decoded, micros(partial(from_kafka, each, services, asked.records), asked.records)
        print(took, file=sys.stderr)
        found.append(took)
    return found


def report(asked: argparse.Namespace, found: Sequence[Round]) -> str:
    heading = (
        f"`python -m bench.envelopes --records {asked.records} --rounds {asked.rounds}`, {datetime.now(UTC):%Y-%m-%d},"
        f" on {os.cpu_count()} cores shared with other work (load average {os.getloadavg()[0]:.0f}). The same rows of"
        " 20 columns, as Avro records and in Avro envelopes of Debezium, one in ten a delete. CPU microseconds a"
        " record, the median; the rate is that of rows in the same round."
    )
    table = ["| records | decoded | rate | read and decoded | rate |", "|---|---|---|---|---|"]
    return "\n".join([heading, "", *table, *(_row(name, found) for name in found[0])])


def _row(name: str, found: Sequence[Round]) -> str:
    cells = []
    for place in (0, 1):
        took = statistics.median(each[name][place] for each in found)
        rate = statistics.median(each["rows"][place] / each[name][place] for each in found)
        cells += [f"{took:.2f}", f"{rate:.2f}"]
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
