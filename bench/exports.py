"""How many rows of stock trades with 20 columns does an export write in a second of CPU, and what bounds it?

A table of one week is exported by the same code as `frazil export`, to a folder on this machine: rows of CPU seconds of
the process, the median of interleaved runs. Then each step alone: reading the table, and writing rows that are in
memory.

Usage: python -m bench.exports [--rows N] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.pinned_scan import Bounds, PinnedScan
from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.parts import PartsWriter
from frazil.exports.perform import Export
from frazil.exports.periods import period_between
from frazil.formats.arrow import project
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, Decimal, Scalar
from frazil.model.exports import ExportSpec, ExportWindow
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView

TABLE = "lake.trades"
WEEK = ExportWindow("kafka_timestamp", "week", "UTC")
MONDAY = datetime(2026, 1, 12, tzinfo=UTC)
COLUMNS = (
    Column("trade_id", Scalar("long")),
    Column("userid", Scalar("string")),
    Column("account", Scalar("string")),
    Column("symbol", Scalar("string")),
    Column("side", Scalar("string")),
    Column("quantity", Scalar("int")),
    Column("price", Decimal(18, 4)),
    Column("fee", Scalar("double")),
    Column("currency", Scalar("string")),
    Column("venue", Scalar("string")),
    Column("order_id", Scalar("string")),
    Column("traded_at", Scalar("timestamptz")),
    Column("settles_on", Scalar("date")),
    Column("is_short", Scalar("boolean")),
    Column("note", Scalar("string")),
    Column("kafka_partition", Scalar("int")),
    Column("kafka_offset", Scalar("long")),
    Column("kafka_timestamp", Scalar("timestamptz")),
    Column("kafka_key", Scalar("string")),
    Column("kafka_schema_id", Scalar("int")),
)
BATCH = 100_000


def trades(start: int, count: int) -> pa.RecordBatch:
    rng = np.random.default_rng(start)
    begin = int(MONDAY.timestamp() * 1e6)
    at = pa.array(begin + (start + np.arange(count)) * 50_000, pa.timestamp("us", "UTC"))

    def words(prefix: str, kinds: int) -> pa.Array:
        return pa.array([f"{prefix}{n}" for n in range(kinds)]).take(pa.array(rng.integers(0, kinds, count)))

    prices = pa.array(rng.integers(1, 10**7, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(23, 4))
    values: Mapping[str, object] = {
        "trade_id": np.arange(start, start + count),
        "userid": words("User_", 10_000),
        "account": words("ACC-", 50_000),
        "symbol": words("ZV", 500),
        "side": pa.array(["BUY", "SELL"]).take(pa.array(rng.integers(0, 2, count))),
        "quantity": pa.array(rng.integers(1, 5_000, count), pa.int32()),
        "price": prices.cast(pa.decimal128(18, 4)),
        "fee": np.round(rng.random(count), 4),
        "currency": words("US", 4),
        "venue": words("XN", 12),
        "order_id": pa.array([f"{n:032x}" for n in rng.integers(0, 2**62, count).tolist()]),
        "traded_at": at,
        "settles_on": at.cast(pa.date32(), safe=False),
        "is_short": rng.integers(0, 2, count).astype(bool),
        "note": pa.array(["", 'limit, "good till cancelled"', None]).take(pa.array(rng.integers(0, 3, count))),
        "kafka_partition": pa.array(np.full(count, start % 6), pa.int32()),
        "kafka_offset": np.arange(start, start + count),
        "kafka_timestamp": at,
        "kafka_key": words("User_", 10_000),
        "kafka_schema_id": pa.array(np.full(count, 1), pa.int32()),
    }
    return pa.RecordBatch.from_pydict({name: pa.array(values[name]) for name in (c.name for c in COLUMNS)})


def made_table(lake: IcebergLake, rows: int) -> TableView:
    view = lake.create(TABLE, COLUMNS, partition_by=["day(kafka_timestamp)"], properties={}, summary={})
    files = DataFileWriter(write_target(view), storage=lake.storage, prefix="bench", target_bytes=512 << 20)
    for start in range(0, rows, BATCH):
        files.add(project(trades(start, min(BATCH, rows - start)), files.arrow_schema))
    assert view.head is not None
    lake.stage(view, base=view.head, branch="bench", files=files.close(), summary={})
    staged = lake.load(TABLE)
    assert staged is not None
    lake.publish(staged, branch="bench", tag="bench", drop=["bench"])
    done = lake.load(TABLE)
    assert done is not None
    return done


class Bench:
    """A table of one week, and what is measured of its export."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.lake = IcebergLake(CatalogSettings("jdbc", str(folder / "warehouse")))
        self.view = made_table(self.lake, rows)
        self.rows = rows
        self.spec = ExportSpec("", "trades", TABLE, str(folder / "out"), WEEK)
        self.period = period_between(WEEK, "2026-01-12", "2026-01-19")
        self._runs = 0

    def export(self, **keys: object) -> Callable[[], None]:
        def run() -> None:
            self._runs += 1
            spec = replace(self.spec, name=f"trades{self._runs}", **keys)  # type: ignore[arg-type]
            export = Export(spec, self.lake, lambda at: ExportFolder({}, at), now=lambda: MONDAY)
            done = export.run(self.period)
            assert done.written is not None and done.written.rows == self.rows
            for part in done.written.parts:
                Path(done.address, part.name).unlink()

        return run

    def scan(self) -> PinnedScan:
        start, end = (int(each.timestamp() * 1e6) for each in (self.period.start, self.period.end))
        assert self.view.head is not None
        return PinnedScan(self.view, self.view.head, bounds=[Bounds("kafka_timestamp", start, end)])

    def read(self) -> None:
        scan = self.scan()
        assert sum(rows.num_rows for n in range(scan.files) for rows in scan.rows_of(n)) == self.rows

    def write(self) -> Callable[[], None]:
        scan = self.scan()
        held = [rows for n in range(scan.files) for rows in scan.rows_of(n)]
        folder = ExportFolder({}, str(self.folder / "written"))

        def run() -> None:
            writer = PartsWriter(self.spec, scan.schema, "x", folder.open, lambda part, left: None)
            for rows in held:
                writer.write(rows)
            writer.close()

        return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.exports", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved runs of each")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), asked.rows)
        candidates: Mapping[str, Callable[[], None]] = {
            "CSV": bench.export(),
            "CSV without the formula guard": bench.export(formula_guard=False),
            "CSV with gzip": bench.export(gzip=True),
            "Parquet": bench.export(format="parquet"),
            "reading alone": bench.read,
            "writing CSV alone": bench.write(),
        }
        rounds = [{name: _seconds(act) for name, act in candidates.items()} for _ in range(asked.rounds)]
    for name in candidates:
        seconds = statistics.median(taken[name] for taken in rounds)
        print(f"{name}: {asked.rows / seconds:,.0f} rows a CPU-second, {seconds / asked.rows * 1e6:.2f} µs a row")


def _seconds(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


if __name__ == "__main__":
    main()
