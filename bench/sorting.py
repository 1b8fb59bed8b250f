"""What does `sort_by` cost an ingest task: decode and write, in one process, with no sort order and with each of three?

Prints CPU microseconds a record, the least of interleaved runs, and the size of the files.

Usage: python -m bench.sorting [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bench.orders import SCHEMA, encoded
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.arrow import project
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import WriteTarget
from frazil.model.settings import CatalogSettings
from frazil.records import binary

CHUNK = 20_000
ORDERS = {"no order": (), "random longs": ("customer_id",), "random text": ("sku",), "ascending": ("created_at",)}


def target_of(folder: Path, name: str, sort_by: tuple[str, ...]) -> WriteTarget:
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    columns = map_schema(parse_schema(json.dumps(SCHEMA))).columns
    table = f"bench.{name.replace(' ', '_')}"
    return write_target(lake.create(table, columns, partition_by=(), sort_by=sort_by, properties={}, summary={}))


def micros(target: WriteTarget, payloads: list[pa.LargeBinaryArray], records: int) -> tuple[float, int]:
    """Return CPU microseconds a record of one run, and the bytes of its files."""
    decoder = open_decoder(parse_schema(json.dumps(SCHEMA)))
    began = time.process_time()
    writer = DataFileWriter(target, storage={}, prefix="bench", target_bytes=512_000_000)
    for chunk in payloads:
        writer.add(project(decoder.decode(chunk, skip=5).rows, writer.arrow_schema, {}))
    files = writer.close()
    return (time.process_time() - began) / records * 1e6, sum(file.size for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sorting", description=__doc__)
    parser.add_argument("--records", type=int, default=600_000, help="records")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved runs of each")
    asked = parser.parse_args()
    values = list(encoded(0, asked.records, 1))
    payloads = [binary(values[start : start + CHUNK]) for start in range(0, len(values), CHUNK)]
    with tempfile.TemporaryDirectory() as folder:
        targets = {name: target_of(Path(folder), name, sort_by) for name, sort_by in ORDERS.items()}
        rounds = [
            {name: micros(target, payloads, asked.records) for name, target in targets.items()}
            for _ in range(asked.rounds)
        ]
    for name in ORDERS:
        took, size = min(each[name][0] for each in rounds), rounds[0][name][1]
        plain, plain_size = min(each["no order"][0] for each in rounds), rounds[0]["no order"][1]
        print(f"{name}: {took:.2f} µs a record, {took / plain - 1:+.0%}; files {size / plain_size - 1:+.1%}")


if __name__ == "__main__":
    main()
