"""How long does it take to find which rows of a table have one of a batch's identities?

Prints CPU nanoseconds a stored row, the least of a few runs on one core, for tables of several sizes. Half of the
identities are in the table. Files have the identity, a partition and an offset. With --sorted, rows are in the order of
the identity's first half, as after a compaction of a table with `sort_by: [frazil_identity_1]`.

Usage: python -m bench.probe [--stored N...] [--wanted N...] [--sorted]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.probe import probe, stored_files
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Scalar
from frazil.model.probe import IdentityColumns, ProbeTask
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.modes.identity import COLUMNS, FIRST
from frazil.modes.wanted import as_array

RUNS = 5
CHUNK = 250_000
TABLE = "lake.keyed"
SOURCE = (Column("kafka_partition", Scalar("int")), Column("kafka_offset", Scalar("long")))


def filled(lake: IcebergLake, rows: int, *, is_sorted: bool = False) -> tuple[TableView, np.ndarray]:
    """Return a table of so many rows, and their identities as two columns of longs."""
    order = (FIRST,) if is_sorted else ()
    lake.create(TABLE, (*COLUMNS, *SOURCE), partition_by=(), sort_by=order, properties={}, summary={})
    view = lake.load(TABLE)
    assert view is not None
    halves = np.random.default_rng(rows).integers(-(2**63), 2**63 - 1, (rows, 2), np.int64)
    if is_sorted:
        halves = halves[np.argsort(halves[:, 0])]
    files = DataFileWriter(write_target(view), storage={}, prefix="b", target_bytes=128 << 20)
    for start in range(0, rows, CHUNK):
        here = halves[start : start + CHUNK]
        partitions, offsets = np.full(len(here), start % 12, np.int32), np.arange(start, start + len(here))
        files.add(pa.RecordBatch.from_arrays([*here.T.copy(), partitions, offsets], schema=files.arrow_schema))
    lake.stage(view, base=view.head or 0, branch="b", files=files.close(), summary={})
    view = lake.load(TABLE)
    assert view is not None
    lake.publish(view, branch="b", tag="t", drop=["b"])
    view = lake.load(TABLE)
    assert view is not None
    return view, halves


def task_of(view: TableView, stored: np.ndarray, wanted: int) -> ProbeTask:
    rng = np.random.default_rng(0)
    there = stored[rng.choice(len(stored), wanted // 2, replace=False)]
    others = rng.integers(-(2**63), 2**63 - 1, (wanted - len(there), 2), np.int64)
    first, second = np.concatenate([there, others]).T.copy()
    ids = {column.name: view.current.schema().find_field(column.name).field_id for column in (*COLUMNS, *SOURCE)}
    return ProbeTask(
        table=TABLE,
        location=view.location,
        files=stored_files(view),
        columns=IdentityColumns(*(ids[column.name] for column in (*COLUMNS, *SOURCE))),
        first=as_array(first),
        second=as_array(second),
        storage={},
        properties=view.properties,
    )


def nanoseconds(task: ProbeTask, expected: int) -> tuple[float, float]:
    """Return CPU and wall nanoseconds a stored row."""
    began, wall = time.process_time(), time.perf_counter()
    found = probe(task)
    took, waited = time.process_time() - began, time.perf_counter() - wall
    assert sum(len(each.place) for each in found) == expected
    rows = sum(file.rows for file in task.files)
    return took / rows * 1e9, waited / rows * 1e9


def measured(task: ProbeTask, wanted: int) -> tuple[float, float]:
    runs = [nanoseconds(task, wanted // 2) for _ in range(RUNS)]
    return min(cpu for cpu, _ in runs), min(wall for _, wall in runs)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.probe", description=__doc__)
    parser.add_argument("--stored", type=int, nargs="+", default=[1_000_000, 10_000_000], help="rows of the table")
    parser.add_argument("--wanted", type=int, nargs="+", default=[200_000], help="identities of the batch")
    parser.add_argument("--sorted", action="store_true", help="sort the rows by the first half of the identity")
    asked = parser.parse_args(given)
    for stored in asked.stored:
        with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
            lake = IcebergLake(CatalogSettings("jdbc", str(Path(folder))))
            view, halves = filled(lake, stored, is_sorted=asked.sorted)
            for wanted in asked.wanted:
                cpu, wall = measured(task_of(view, halves, wanted), wanted)
                about = f"{stored:,} stored rows{', sorted' if asked.sorted else ''}, {wanted:,} identities"
                print(f"{about}: {cpu:.1f} ns of CPU a stored row, {wall:.1f} ns wall")


if __name__ == "__main__":
    main()
