"""How long does it take to write rows of a table anew, each with the end of its interval?

Prints CPU seconds of one core, the least of a few runs, for one file of 23 columns and several numbers of random rows.

Usage: python -m bench.rows_anew [--stored N] [--updated N...]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from array import array
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.update_rows import update_rows
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar, ScalarName
from frazil.model.ingested import WriteTarget
from frazil.model.settings import CatalogSettings
from frazil.model.updates import RowUpdates, UpdateTask
from frazil.modes.validity import IS_CURRENT, VALID_TO, validity_columns
from frazil.modes.wanted import as_array

RUNS = 3
CHUNK = 100_000
TABLE = "lake.history"
TYPES: tuple[ScalarName, ...] = ("long", "string", "double", "int", "timestamptz")
COLUMNS = (*(Column(f"c{n}", Scalar(TYPES[n % len(TYPES)])) for n in range(20)), *validity_columns())
TEXTS = [f"a text of no great length, {n}" for n in range(5000)]


def filled(target: WriteTarget, rows: int) -> str:
    """Return the path of a file of so many rows."""
    files = DataFileWriter(target, storage={}, prefix="b", target_bytes=1 << 40)
    rng = np.random.default_rng(rows)
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        columns = [_column(rng, field.type, count) for field in files.arrow_schema]
        files.add(pa.RecordBatch.from_arrays(columns, schema=files.arrow_schema))
    (file,) = files.close()
    return file.path


def _column(rng: np.random.Generator, kind: pa.DataType, count: int) -> pa.Array:
    if pa.types.is_large_string(kind):
        return pa.array(TEXTS, kind).take(pa.array(rng.integers(0, len(TEXTS), count)))
    if pa.types.is_floating(kind):
        return pa.array(rng.random(count), kind)
    numbers = pa.array(rng.integers(0, 1 << 30, count))
    return pa.array(np.ones(count, np.bool_)) if pa.types.is_boolean(kind) else numbers.cast(kind)


def seconds(target: WriteTarget, path: str, positions: array[int]) -> float:
    """Return the CPU seconds that writing the rows at these positions anew takes."""
    count = len(positions)
    set_to = {VALID_TO: as_array(np.full(count, 1 << 40)), IS_CURRENT: as_array(np.zeros(count, np.int64))}
    updates = RowUpdates((path,), as_array(np.zeros(count, np.int64)), positions, set_to)
    began = time.process_time()
    written = update_rows(UpdateTask(target, updates, "u", 1 << 40, {}))
    took = time.process_time() - began
    assert sum(file.rows for file in written) == count
    return took


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rows_anew", description=__doc__)
    parser.add_argument("--stored", type=int, default=1_000_000, help="rows of the file")
    parser.add_argument("--updated", type=int, nargs="+", default=[1_000, 20_000, 200_000], help="rows written anew")
    asked = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        lake = IcebergLake(CatalogSettings("jdbc", folder))
        lake.create(TABLE, COLUMNS, partition_by=(), properties={}, summary={})
        view = lake.load(TABLE)
        assert view is not None
        target = write_target(view)
        path = filled(target, asked.stored)
        for count in asked.updated:
            positions = as_array(np.sort(np.random.default_rng(1).choice(asked.stored, count, replace=False)))
            took = min(seconds(target, path, positions) for _ in range(RUNS))
            print(f"{asked.stored:,} stored rows, {count:,} written anew: {took:.2f} s of CPU")


if __name__ == "__main__":
    main()
