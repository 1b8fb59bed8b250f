"""What Parquet settings cost and give: CPU to write, bytes a row, CPU to read; each setting changed alone.

Usage: python -m bench.encode [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.orders import SCHEMA, encoded
from bench.sections import put
from frazil.adapters.kafka.reader import CHUNK
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.materialize.ingest.write import ROW_GROUP_ROWS, writer_settings
from frazil.records import binary

TITLE = "Encoding"
GROUPS = 2
LONGS = ("order_id", "customer_id", "created_at", "updated_at", "kafka_offset", "kafka_timestamp")
FEW_VALUES = ("status", "currency", "country", "city", "channel", "campaign", "qty", "is_gift", "is_paid")
CONSTANT = ("kafka_partition", "kafka_schema_id")
OTHERS = (*FEW_VALUES, *CONSTANT)
CHANGES: Mapping[str, Mapping[str, object]] = {
    "as it is": {},
    "zstd level 3": {"compression_level": 3},
    "zstd level -1": {"compression_level": -1},
    "lz4": {"compression": "lz4", "compression_level": None},
    "snappy": {"compression": "snappy", "compression_level": None},
    "no compression": {"compression": "none", "compression_level": None},
    "no statistics": {"write_statistics": False, "write_page_index": False},
    "no page index": {"write_page_index": False},
    "dictionaries of 1 MiB": {"dictionary_pagesize_limit": 1 << 20},
    "no dictionaries": {"use_dictionary": False},
    "pages of 256 KiB": {"data_page_size": 256 << 10},
    "pages of 4 MiB": {"data_page_size": 4 << 20},
    "longs as packed differences": {
        "use_dictionary": list(OTHERS),
        "column_encoding": dict.fromkeys(LONGS, "DELTA_BINARY_PACKED"),
    },
}


@dataclass(slots=True)
class Found:
    """CPU microseconds a row, the least of all rounds, and bytes a row."""

    write: float = float("inf")
    read: float = float("inf")
    size: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.encode", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that each setting has its turn")
    asked = parser.parse_args()
    rows = table()
    found = {name: Found() for name in CHANGES}
    with TemporaryDirectory() as folder:
        for _ in range(asked.rounds):
            for name, change in CHANGES.items():
                measure(rows, {**writer_settings({}), **change}, Path(folder) / "rows.parquet", found[name])
    put(TITLE, report(asked, found))


def table() -> pa.Table:
    """The rows of one row group: the benchmark's 20 columns and the default metadata columns."""
    payloads = list(encoded(0, ROW_GROUP_ROWS, 1))
    decoder = open_decoder(parse_schema(json.dumps(SCHEMA)))
    starts = range(0, len(payloads), CHUNK)
    return pa.Table.from_batches(
        [with_metadata(decoder.decode(binary(payloads[start : start + CHUNK]), skip=5).rows, start) for start in starts]
    )


def with_metadata(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    offsets = range(start, start + batch.num_rows)
    stamps = [1_790_000_000_000_000 + offset // 50 * 1000 for offset in offsets]
    metadata = {
        "kafka_partition": pa.array([0] * batch.num_rows, pa.int32()),
        "kafka_offset": pa.array(offsets, pa.int64()),
        "kafka_timestamp": pa.array(stamps, pa.timestamp("us", "UTC")),
        "kafka_key": pa.array([f"customer-{offset % 100_000}" for offset in offsets]),
        "kafka_schema_id": pa.array([1] * batch.num_rows, pa.int32()),
    }
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return pa.RecordBatch.from_pydict({**columns, **metadata})


def measure(rows: pa.Table, settings: Mapping[str, object], path: Path, found: Found) -> None:
    found.write = min(found.write, micros(lambda: write(rows, settings, path)))
    found.read = min(found.read, micros(lambda: read(path, rows.schema.names)))
    found.size = path.stat().st_size / (GROUPS * rows.num_rows)


def write(rows: pa.Table, settings: Mapping[str, object], path: Path) -> None:
    with pq.ParquetWriter(path, rows.schema, **settings) as writer:
        for _ in range(GROUPS):
            writer.write_table(rows, row_group_size=rows.num_rows)


def read(path: Path, names: Sequence[str]) -> None:
    """Read every value of every column."""
    with duckdb.connect(config={"threads": 1}) as connection:
        columns = ", ".join(f"max({name})" for name in names)
        connection.execute(f"SELECT {columns} FROM read_parquet('{path}')").fetchall()


def micros(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) / (GROUPS * ROW_GROUP_ROWS) * 1e6


def report(asked: argparse.Namespace, found: Mapping[str, Found]) -> str:
    return "\n".join(
        [
            f"`python -m bench.encode --rounds {asked.rounds}`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores"
            f" shared with other work (load average {os.getloadavg()[0]:.0f}), pyarrow {pa.__version__}, DuckDB"
            f" {duckdb.__version__}. The benchmark's 25 columns in row groups of {ROW_GROUP_ROWS:,} rows, in one"
            " process; each setting is changed alone. CPU microseconds a row, the least of all rounds; reading is"
            " `max` of every column in DuckDB. Why the settings are as they are: docs/decisions/0028.",
            "",
            "| settings | write | read | bytes a row |",
            "|---|---|---|---|",
            *(f"| {name} | {each.write:.2f} | {each.read:.2f} | {each.size:.1f} |" for name, each in found.items()),
        ]
    )


if __name__ == "__main__":
    main()
