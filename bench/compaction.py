"""What does it cost to merge small files of a table with all records, and what does a scan save?

Writes files of 20 columns, merges them in one process as a task does, and scans both with DuckDB. Prints rows per
CPU-second of the merge, and CPU microseconds a row of the scans, the least of several rounds.

Usage: python -m bench.compaction [--files N] [--rows N] [--rounds N] [--sort-by FIELD]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.orders import SCHEMA, encoded
from bench.sorting import CHUNK, target_of
from frazil.adapters.iceberg.rewrite_files import rewrite_files
from frazil.formats.arrow import project
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema
from frazil.maintain.merging import FILE_ROWS, Merge, pays_after
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.ingested import WriteTarget, WrittenFile
from frazil.model.probe import StoredFile
from frazil.model.rewrites import RewriteTask
from frazil.records import binary


def small_files(target: WriteTarget, payloads: Sequence[pa.LargeBinaryArray]) -> list[WrittenFile]:
    """Write a file of each chunk of records."""
    decoder = open_decoder(parse_schema(json.dumps(SCHEMA)))
    files: list[WrittenFile] = []
    for chunk in payloads:
        writer = DataFileWriter(target, storage={}, prefix="bench", target_bytes=512_000_000)
        writer.add(project(decoder.decode(chunk, skip=5).rows, writer.arrow_schema, {}))
        files += writer.close()
    return files


def scanned(files: Sequence[WrittenFile]) -> float:
    """Return the CPU seconds of a scan of four columns."""
    paths = [each.path.removeprefix("file://") for each in files]
    query = "SELECT sum(customer_id), max(sku), count(DISTINCT status), max(created_at) FROM read_parquet($paths)"
    with duckdb.connect(config={"threads": 1}) as connection:
        began = time.process_time()
        connection.execute(query, {"paths": paths}).fetchall()
        return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--files", type=int, default=60, help="small files")
    parser.add_argument("--rows", type=int, default=CHUNK, help="rows of each")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each")
    parser.add_argument("--sort-by", default="", help="a field of the table's sort order")
    parser.add_argument("--z-order", nargs="*", default=(), help="columns of a z-order")
    asked = parser.parse_args()
    values = list(encoded(0, asked.rows * asked.files, 1))
    payloads = [binary(values[start : start + asked.rows]) for start in range(0, len(values), asked.rows)]
    with tempfile.TemporaryDirectory() as folder:
        target = target_of(Path(folder), "orders", (asked.sort_by,) if asked.sort_by else ())
        small = small_files(target, payloads)
        stored = [StoredFile(each.path, each.rows, (), each.size, (0,)) for each in small]
        merge = Merge(tuple(stored), is_cold=True)
        task = RewriteTask(target, stored, "merged", 128 << 20, {}, tuple(asked.z_order))
        seconds, before, after = [], [], []
        for _ in range(asked.rounds):
            began = time.process_time()
            merged = rewrite_files(task).files
            seconds.append(time.process_time() - began)
            before.append(scanned(small))
            after.append(scanned(merged))
    rows, saved, fewer = merge.rows, min(before) - min(after), len(small) - len(merged)
    print(f"{len(small)} files of {asked.rows:,} rows became {len(merged)}")
    print(f"{rows / min(seconds):,.0f} rows a CPU-second")
    print(f"bytes: {sum(each.size for each in merged) / sum(each.size for each in small) - 1:+.1%}")
    print(f"a scan of 4 columns: {min(before):.3f} s before, {min(after):.3f} s after, of CPU")
    print(f"one file less saves {saved / fewer * 1e3:.2f} ms of a scan; assumed: that of {FILE_ROWS:,} rows")
    print(f"measured: pays after {min(seconds) / saved:.0f} scans; assumed: {pays_after(rows, merge.saved)}")


if __name__ == "__main__":
    main()
