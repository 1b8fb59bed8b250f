"""What do masks cost an ingest task: decode and write, in one process, with no mask and with two masked columns?

Prints CPU microseconds a record, the median of interleaved runs. Records and files are in memory.

Usage: python -m bench.masks [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import statistics
import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from bench.orders import SCHEMA, encoded
from frazil.adapters.kafka.reader import CHUNK
from frazil.formats.open import map_schema, open_decoder
from frazil.materialize.ingest.write import writer_settings
from frazil.model.policies import Policies, Policy
from frazil.model.schemas import RegisteredSchema
from frazil.model.secret import NamedKey, Secret
from frazil.model.spec import FormatSettings
from frazil.records import binary

KEY = NamedKey("bench", Secret(base64.b64encode(bytes(32)).decode()))
HASH = Policy("hash")
CANDIDATES: Mapping[str, Policies] = {
    "no masks": Policies(),
    "hash of email and session_id, distinct values": Policies((("email", HASH), ("session_id", HASH))),
    "hash of email, truncated note": Policies((("email", HASH), ("note", Policy("truncate", 8)))),
    "redacted email and session_id": Policies((("email", Policy("redact")), ("session_id", Policy("redact")))),
}


def micros(policies: Policies, payloads: list[pa.LargeBinaryArray], records: int) -> float:
    """Return CPU microseconds a record of one run."""
    schema = RegisteredSchema(1, "AVRO", json.dumps(SCHEMA))
    settings = FormatSettings(policies=policies, hash_key=KEY)
    map_schema(schema, settings)
    decoder = open_decoder(schema, settings)
    began = time.process_time()
    with pq.ParquetWriter(io.BytesIO(), decoder.schema, **writer_settings({})) as writer:
        batches = [decoder.decode(chunk, skip=5).rows for chunk in payloads]
        writer.write_table(pa.Table.from_batches(batches))
    return (time.process_time() - began) / records * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.masks", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of each")
    asked = parser.parse_args()
    values = list(encoded(0, asked.records, 1))
    payloads = [binary(values[start : start + CHUNK]) for start in range(0, len(values), CHUNK)]
    rounds = [
        {name: micros(each, payloads, asked.records) for name, each in CANDIDATES.items()} for _ in range(asked.rounds)
    ]
    plain = statistics.median(taken["no masks"] for taken in rounds)
    for name in CANDIDATES:
        took = statistics.median(taken[name] for taken in rounds)
        print(f"{name}: {took:.3f} µs a record, {took / plain - 1:+.1%}")


if __name__ == "__main__":
    main()
