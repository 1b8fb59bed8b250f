"""Does a table that has run for a week commit as fast as on its first day?

CPU of stage and publish, and the size of `metadata.json`, after 10, 1,000 and 10,000 commits, at 12 and at 1,000
partitions. Writes bench/commits.svg and a section of bench/RESULTS.md; needs no broker.

Usage: python -m bench.commits

The first commits of each table are real. The rest of its history is put into its metadata as expiry leaves it: the
snapshots that the default settings keep. The commits that are measured are real again, through the steps that
`materialize` takes.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa

from bench.chart import Panel, svg
from bench.orders import SCHEMA
from bench.sections import put
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.materialize.branches import STAGE_PREFIX, branch_names, stage_on_branch
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.materialize.publish import Share, publish
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.ingested import WrittenFile
from frazil.model.pipeline import Pipeline
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import (
    Counts,
    Observation,
    ObservedTopic,
    OffsetSums,
    PartitionProgress,
    SourceProgress,
    TableState,
)
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.summary import store
from frazil.modes.mode import BatchChange

COMMITS = (10, 1_000, 10_000)
PARTITIONS = (12, 1_000)
REAL = 110
"""Enough for manifests to be merged once, and for the log of metadata files to be full."""
MEASURED = 105
"""One merge of manifests is among them, so that its share is counted."""
FILES = 4
"""Data files that each commit adds."""
TABLE = "lake.orders"
KEPT, PENDING, DAILY = 1_440, 60, 7
"""Snapshots that expiry keeps by default, those that wait for its next commit, and tagged ones, one a day."""
TARGET_SECONDS, TARGET_MEGABYTES = 0.15, 2.0
CHART = Path("bench/commits.svg")
MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """CPU seconds of a commit (the mean), and of the slowest; the size of the metadata in MB; cold: the first load."""

    partitions: int
    commits: int
    expiry: bool
    seconds: float
    slowest: float
    cold_seconds: float
    megabytes: float
    snapshots: int


@dataclass(slots=True)
class Orders:
    """A table with a history, and commits to it."""

    folder: Path
    partitions: int
    table: str = TABLE
    topic: str = "orders"
    lake: IcebergLake = field(init=False)
    _files: tuple[WrittenFile, ...] = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)
    _names: Iterator[str] = field(default_factory=lambda: branch_names(STAGE_PREFIX, "bench"))

    def __post_init__(self) -> None:
        self.restart()
        first = store(self._state(epoch=0))
        columns = map_schema(parse_schema(json.dumps(SCHEMA))).columns
        self.lake.create(
            self.table,
            columns,
            partition_by=(),
            properties=TABLE_PROPERTIES,
            summary=first.summary,
            document=first.document,
            tag=CHECKPOINT_TAG,
        )
        self._files = self._written()

    def restart(self) -> None:
        self.lake = IcebergLake(CatalogSettings("jdbc", str(self.folder)))

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.table, (self.topic,))

    @property
    def view(self) -> TableView:
        view = self.lake.load(self.table)
        assert view is not None
        return view

    @property
    def metadata(self) -> Path:
        return Path(self.view.current.metadata_location.removeprefix("file://"))

    def commit(self) -> float:
        """Stage and publish a batch; the CPU seconds that it took."""
        number = next(self._numbers)
        state = self._state(epoch=number + 1)
        receipt = _receipt(state, self.table)
        files = [replace(file, path=f"{file.path}.{number}.{n}") for n in range(FILES) for file in self._files]
        rows = sum(file.rows for file in files)
        began = time.process_time()
        view = self.view
        here = standing(view, pipeline=self.pipeline)
        plan = BatchPlan(
            self.table, state.batch_id, view.head or 0, here.state, (), WriterSchemas({}, {}), (), table_uuid=view.uuid
        )
        new = store(state, receipt)
        staged = stage_on_branch(
            self.lake,
            view,
            base=view.head or 0,
            names=self._names,
            change=BatchChange(files, {"added-records": rows, "deleted-records": 0}),
            summary=new.summary,
            document=new.document,
        )
        (published,) = publish(self.lake, [Share(plan, staged, lambda _: staged)])
        took = time.process_time() - began
        assert published.head == staged.snapshot_id
        return took

    def age(self, snapshots: int) -> None:
        """Give the table as many snapshots: what is missing is put before those that are there."""
        path = self.metadata
        metadata = json.loads(path.read_text())
        real = metadata["snapshots"]
        model = real[-1]
        missing = range(snapshots - len(real))
        figures = random.Random(3)
        ids = [figures.randrange(10**18, 9 * 10**18) for _ in missing]
        first_ms = real[0]["timestamp-ms"] - 60_000 * len(ids)
        metadata["snapshots"] = [
            {**model, "snapshot-id": ids[n], "parent-snapshot-id": ids[n - 1], "timestamp-ms": first_ms + 60_000 * n}
            for n in missing
        ] + real
        log = [{"snapshot-id": ids[n], "timestamp-ms": first_ms + 60_000 * n} for n in missing]
        metadata["snapshot-log"] = log + metadata["snapshot-log"]
        path.write_text(json.dumps(metadata))
        self.restart()

    def _state(self, *, epoch: int) -> TableState:
        figures = random.Random(epoch)
        partitions = {
            n: PartitionProgress(
                origin=10**8 + n,
                start=(begun := 10**9 + epoch * 1000 + figures.randrange(1000)),
                next=begun + figures.randrange(1000),
                counts=Counts(read=begun, rows=begun),
                sums=OffsetSums(figures.getrandbits(64), figures.getrandbits(64)),
                leader_epoch=4,
                record_bytes=200 + figures.randrange(50),
            )
            for n in range(self.partitions)
        }
        source = SourceProgress(self.topic, "id", 0, partitions)
        ends = {n: partition.next + 500 for n, partition in partitions.items()}
        observed = (Observation(MOMENT, (ObservedTopic(self.topic, 0, ends),)),)
        return TableState(
            self.pipeline.name, epoch, "bench", f"batch{epoch}", (source,), MOMENT, observed, schema_ids=(1,)
        )

    def _written(self) -> tuple[WrittenFile, ...]:
        """A real file, whose statistics all the others repeat."""
        files = DataFileWriter(write_target(self.view), storage={}, prefix="w", target_bytes=1 << 20)
        columns = [pa.nulls(100, each.type) for each in files.arrow_schema]
        files.add(pa.RecordBatch.from_arrays(columns, schema=files.arrow_schema))
        return files.close()


def _receipt(state: TableState, table: str) -> Receipt:
    (source,) = state.sources
    ranges = (
        RangeReceipt(source.topic, n, p.start, p.next, Counts(p.next - p.start, p.next - p.start), 0)
        for n, p in source.partitions.items()
    )
    return Receipt(
        table=table,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=tuple(ranges),
        counts=Counts(1, 1),
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=1,
        file_bytes=1,
        files=FILES,
        truncated_nanos=0,
        complete_through=None,
        seconds={"evolve": 0.01, "plan": 0.01, "ingest": 0.5},
    )


def kept(commits: int, *, expiry: bool) -> int:
    if not expiry or commits < KEPT + PENDING:
        return commits + 1
    return KEPT + PENDING + min(DAILY, commits // KEPT)


def measure(partitions: int, commits: int, *, expiry: bool) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        orders = Orders(Path(folder), partitions)
        for _ in range(min(commits, REAL)):
            orders.commit()
        snapshots = kept(commits, expiry=expiry)
        if snapshots > min(commits, REAL) + 1:
            orders.age(snapshots)
        orders.restart()
        began = time.process_time()
        assert len(orders.view.snapshots) == snapshots
        cold = time.process_time() - began
        took = [orders.commit() for _ in range(MEASURED)]
        megabytes = orders.metadata.stat().st_size / 1e6
    return Found(partitions, commits, expiry, statistics.mean(took), max(took), cold, megabytes, snapshots)


def main() -> None:
    found = []
    for partitions, commits, expiry in asked():
        found.append(measure(partitions, commits, expiry=expiry))
        print(found[-1], file=sys.stderr)
    CHART.write_text(chart(found))
    put("Commits over a table's life", section(found))


def asked() -> list[tuple[int, int, bool]]:
    default = [(partitions, commits, True) for partitions in PARTITIONS for commits in COMMITS]
    return [*default, *((PARTITIONS[0], commits, False) for commits in COMMITS)]


def chart(found: list[Found]) -> str:
    names = {_name(each): [other for other in found if _name(other) == _name(each)] for each in found}
    seconds = {name: [(f.commits, f.seconds) for f in line] for name, line in names.items()}
    sizes = {name: [(f.commits, f.megabytes) for f in line] for name, line in names.items()}
    return svg(
        [
            Panel("stage + publish, CPU seconds a commit", seconds, TARGET_SECONDS, 0.2),
            Panel("metadata.json, MB", sizes, TARGET_MEGABYTES, 4),
        ]
    )


def _name(found: Found) -> str:
    return f"{found.partitions:,} partitions" if found.expiry else "12, never expired"


def section(found: list[Found]) -> str:
    rows = [
        f"| {f.partitions:,} | {f.commits:,} | {'by default' if f.expiry else 'never'} | {f.snapshots:,} |"
        f" {f.seconds:.3f} | {f.slowest:.3f} | {f.cold_seconds:.3f} | {f.megabytes:.2f} |"
        for f in found
    ]
    return "\n".join(
        [
            f"`python -m bench.commits`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores, Python"
            f" {platform.python_version()}. Embedded catalog, {FILES} data files a commit. Targets at the default"
            f" settings: {TARGET_SECONDS} CPU-seconds and {TARGET_MEGABYTES:g} MB.",
            "",
            "![CPU seconds a commit, and megabytes of metadata, by commits so far](commits.svg)",
            "",
            "*Mean* and *slowest* are CPU seconds of stage and publish over"
            f" {MEASURED} commits, one of which merges manifests; *cold* is the first load of the table in a process.",
            "",
            "| partitions | commits so far | snapshots expire | snapshots kept | mean | slowest | cold | MB |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )


if __name__ == "__main__":
    main()
