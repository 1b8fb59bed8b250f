"""The physical limit: fetch, decode and Parquet encode of the same records, each alone, in one process.

Usage: python -m bench.stages BOOTSTRAP REGISTRY FOLDER RESULT
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa

from bench.orders import SCHEMA, TOPIC, encoded
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.reader import CHUNK, KafkaReader
from frazil.adapters.kafka.reader import Engine as ReaderEngine
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.formats.arrow import project
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import AvroSchema, parse_schema
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import WriteTarget
from frazil.model.plan import OffsetRange
from frazil.model.settings import CatalogSettings
from frazil.records import OptionalFields, binary

FETCHED = 600_000
SAMPLE = 300_000
FALLBACK_SAMPLE = 20_000
REPEATS = 3
ONLY_VALUES = OptionalFields(timestamp_type=False, leader_epoch=False)


def main(bootstrap: str, registry: str, folder: str, result: str) -> None:
    del registry
    schema = parse_schema(json.dumps(SCHEMA))
    payloads = list(encoded(0, SAMPLE, 1))
    found = {
        "fetch, native": _fetch(bootstrap, "native"),
        "fetch, fallback": _fetch(bootstrap, "python"),
        "decode, native": _decode(schema, payloads, "native"),
        "decode, fallback": _decode(schema, payloads[:FALLBACK_SAMPLE], "fallback"),
        "encode": _encode(schema, payloads, Path(folder)),
    }
    Path(result).write_text(json.dumps(found))


def micros(work: Callable[[], object], rows: int) -> float:
    """CPU microseconds a row, the least of a few runs."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best / rows * 1e6


def _fetch(bootstrap: str, engine: ReaderEngine) -> float:
    settings = {"bootstrap.servers": bootstrap}
    facts = KafkaTopics(settings).describe(TOPIC)
    assert facts is not None
    end = min(FETCHED, facts.partitions[0].end)

    def fetch() -> None:
        reader = KafkaReader(settings, engine=engine)
        for chunks in reader.read([OffsetRange(TOPIC, 0, 0, end, end, 10**12)], ONLY_VALUES):
            deque(chunks, maxlen=0)

    return micros(fetch, end)


def _decode(schema: AvroSchema, payloads: list[bytes], engine: Literal["native", "fallback"]) -> float:
    decoder = open_decoder(schema, engine)
    chunks = [binary(payloads[i : i + CHUNK]) for i in range(0, len(payloads), CHUNK)]
    return micros(lambda: [decoder.decode(chunk, skip=5) for chunk in chunks], len(payloads))


def _encode(schema: AvroSchema, payloads: list[bytes], folder: Path) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    lake = IcebergLake(CatalogSettings("jdbc", str(folder.absolute())))
    columns = map_schema(schema).columns
    view = lake.create("bench.encode", columns, partition_by=(), properties={}, summary={})
    target = write_target(view)
    decoder = open_decoder(schema)
    arrow_schema = _files(target).arrow_schema
    chunks = [binary(payloads[i : i + CHUNK]) for i in range(0, len(payloads), CHUNK)]
    batches = [project(decoder.decode(chunk, skip=5).rows, arrow_schema, {}) for chunk in chunks]
    return micros(lambda: _write(target, batches), len(payloads))


def _write(target: WriteTarget, batches: list[pa.RecordBatch]) -> None:
    files = _files(target)
    for batch in batches:
        files.add(batch)
    files.close()


def _files(target: WriteTarget) -> DataFileWriter:
    return DataFileWriter(target, storage={}, prefix="bench", target_bytes=512_000_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
