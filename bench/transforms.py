"""What a transformation costs: rows of a stateless query, and batches of a grouped one with many groups.

The stateless query is compared with a plain append through the same engine: tasks that read the same rows and write
them, which the JVM does not see.

The followed table has trades of 20 columns. A batch is what one epoch added. CPU seconds are those of the process, the
JVM and the Python workers, after a batch that is not measured: it starts Spark and compiles the query.

Usage: python -m bench.transforms [--rows N] [--groups N] [--batch N] [--rounds N]
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.exports import COLUMNS, TABLE, trades
from bench.measure import Cost, measured
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.spark.application import RUNS_QUERIES
from frazil.adapters.spark.runner import SparkRunner
from frazil.adapters.spark.sql.rows import FilesOf, TableFiles
from frazil.adapters.spark.sql.session import SqlSession
from frazil.adapters.spark.sql.types import arrow_schema, spark_schema
from frazil.formats.arrow import project
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.columns import Column, Scalar
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.summary import EPOCH
from frazil.model.transforms import TransformSpec
from frazil.transforms.in_spark import SparkQueries
from frazil.transforms.run import Transformation

STATELESS = "SELECT *, price * quantity AS value, upper(symbol) AS name FROM trades WHERE side = 'BUY' OR quantity > 0"
GROUPED = """
SELECT account, symbol, count(*) AS trades, sum(price * quantity) AS total, max(traded_at) AS last
FROM trades GROUP BY account, symbol
"""


@dataclass(slots=True)
class Followed:
    """A table to which each `add` adds an epoch."""

    lake: IcebergLake
    epoch: int = 0

    def make(self) -> None:
        self.lake.create(
            TABLE,
            COLUMNS,
            partition_by=(),
            properties=TABLE_PROPERTIES,
            summary={EPOCH: "0", "frazil.batch-id": "b0"},
            tag=CHECKPOINT_TAG,
        )

    def view(self) -> TableView:
        view = self.lake.load(TABLE)
        assert view is not None and view.head is not None
        return view

    def add(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.epoch += 1
        view = self.view()
        files = DataFileWriter(write_target(view), storage=self.lake.storage, prefix="t", target_bytes=64 << 20)
        for batch in batches:
            files.add(project(batch, files.arrow_schema))
        summary = {EPOCH: str(self.epoch), "frazil.batch-id": f"b{self.epoch}"}
        head = view.head or 0
        self.lake.stage(view, base=head, branch="b", files=files.close(), summary=summary)
        self.lake.publish(self.view(), branch="b", tag=CHECKPOINT_TAG, drop=["b"])


def plain(rows: int) -> Iterator[pa.RecordBatch]:
    return (trades(start, min(100_000, rows - start)) for start in range(0, rows, 100_000))


def of_groups(groups: Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> Iterator[pa.RecordBatch]:
    """Yield trades whose account names one of the groups."""
    for numbers in groups:
        made = trades(0, len(numbers))
        accounts = pa.array(np.char.add("A", numbers.astype(str)))
        symbols = pa.array(np.char.add("S", (numbers % 50).astype(str)))
        made = made.set_column(made.schema.get_field_index("account"), "account", accounts)
        yield made.set_column(made.schema.get_field_index("symbol"), "symbol", symbols)


def stateless(session: SqlSession, folder: Path, rows: int, rounds: int) -> list[Cost]:
    followed, batch = _begun(session, folder, STATELESS)
    followed.add(plain(rows))
    batch()
    found = []
    for _ in range(rounds):
        followed.add(plain(rows))
        found.append(measured("stateless", batch))
    return found


@dataclass(frozen=True, slots=True)
class Copy:
    """Reads rows of a table and writes them to another one, in one task."""

    read: TableFiles
    write: FilesOf

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.write(self.read(batches))


def appended(session: SqlSession, folder: Path, rows: int, rounds: int) -> list[Cost]:
    """Return the cost of plain appends of the rows, after one that is not measured."""
    followed, other = (Followed(IcebergLake(CatalogSettings("jdbc", str(folder / name)))) for name in ("from", "to"))
    followed.make()
    other.make()
    followed.add(plain(rows))
    view, target, lake = followed.view(), other.view(), followed.lake
    shares = session.shares(lake.stored_files(view))
    read = TableFiles(write_target(view), lake.storage, shares, arrow_schema(view.columns))
    tasks = session.spark.range(0, len(shares), 1, len(shares))
    result = spark_schema([Column("result", Scalar("binary"))])

    def copy(number: int) -> int:
        write = FilesOf(write_target(target), other.lake.storage, f"c{number}", 512_000_000)
        found = session.map_in_arrow(tasks, Copy(read, write), result).collect()
        return sum(file.rows for (row,) in found for file in pickle.loads(row))

    copy(0)
    return [measured("append", lambda number=number: copy(number)) for number in range(1, rounds + 1)]  # type: ignore[misc]


def grouped(session: SqlSession, folder: Path, groups: int, rows: int, rounds: int) -> list[Cost]:
    """Return the cost of batches that have new rows for random groups."""
    followed, batch = _begun(session, folder, GROUPED)
    followed.add(of_groups(np.array_split(np.arange(groups), max(1, groups // 100_000))))
    batch()
    chance, found = np.random.default_rng(1), []
    for number in range(rounds + 1):
        followed.add(of_groups(iter([chance.integers(0, groups, rows)])))
        cost = measured("grouped", batch)
        found += [cost] if number else []
    return found


def _begun(session: SqlSession, folder: Path, sql: str) -> tuple[Followed, Callable[[], int]]:
    lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
    followed, numbers = Followed(lake), count()
    followed.make()
    spec = TransformSpec("bench", "made", "lake", "made", TABLE, sql=sql)
    made = Transformation(spec, lake, lambda: SparkQueries(session, lake), lambda: f"w{next(numbers)}")

    def batch() -> int:
        done = made.batch()
        assert done is not None
        return done.read

    return followed, batch


def speed(costs: list[Cost]) -> float:
    """Return the median of rows per CPU-second."""
    return statistics.median(cost.rows_per_cpu_second for cost in costs)


def report(costs: list[Cost]) -> str:
    wall = statistics.median(cost.wall_seconds for cost in costs)
    cpu = statistics.median(cost.cpu_seconds for cost in costs)
    first = costs[0]
    return (
        f"{first.subject}: {first.rows:,} rows in {wall:.1f} s and {cpu:.1f} CPU seconds:"
        f" {first.rows / cpu:,.0f} rows per CPU-second; JVM {max(c.jvm_megabytes for c in costs)} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runner = SparkRunner(log_file=Path(folder) / "spark.log", jvm=RUNS_QUERIES)
        session = SqlSession(runner)
        try:
            if given.rows:
                plainly = appended(session, Path(folder) / "a", given.rows, given.rounds)
                print(report(plainly), flush=True)
                queried = stateless(session, Path(folder) / "s", given.rows, given.rounds)
                ratio = speed(queried) / speed(plainly)
                print(f"{report(queried)}; {ratio:.0%} of append's rows per CPU-second", flush=True)
            if given.groups:
                print(report(grouped(session, Path(folder) / "g", given.groups, given.batch, given.rounds)), flush=True)
        finally:
            runner.stop()


if __name__ == "__main__":
    main()
