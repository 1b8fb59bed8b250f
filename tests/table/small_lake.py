"""A small table with dead letters in a real SQLite catalog, written as a batch writes it, and ways to damage it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import live_files
from frazil.formats.arrow import project
from frazil.materialize.changed_spec.applied_spec import applied_by, spec_property
from frazil.materialize.dead_letters import ensure_dead_letters, prepare, reveal
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.layout import metadata_columns
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.columns import Column, Scalar
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import Counts, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import (
    BadRecordLimit,
    Maintain,
    MetadataColumns,
    StartEarliest,
    SubjectSettings,
    TableSpec,
    Trigger,
)
from frazil.model.summary import (
    store,
)
from frazil.proof.tally import sums_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PAYLOAD_BYTES = 100
"""What a receipt says of the size of each record."""


def spec_of(*topics: str, table: str = "orders", **changes: Any) -> TableSpec:
    keep = ("partition", "offset", "timestamp", "key", "schema_id")
    made = TableSpec(
        source_file="tables/orders.yaml",
        database="lake",
        table=table,
        topics=topics or ("orders",),
        key="string",
        value="avro",
        write="append",
        partition_by=(),
        readers=("duckdb",),
        on_bad_record="dead_letter",
        bad_record_limit=BadRecordLimit.off(),
        on_tombstone="row",
        on_incompatible_schema="pause",
        trigger=Trigger(timedelta(seconds=60), 50_000, 10**9),
        maintain=Maintain(512 << 20),
        start=StartEarliest(),
        metadata=MetadataColumns(keep=keep if len(topics) < 2 else ("topic", *keep)),
        value_subject=SubjectSettings(),
        key_subject=SubjectSettings(),
    )
    return replace(made, **changes)


@dataclass(frozen=True, slots=True)
class Read:
    """What a batch read of one partition: offsets `[start, end)`, some of which hold nothing for us."""

    topic: str
    partition: int
    start: int
    end: int
    dead: tuple[int, ...] = ()
    gaps: tuple[int, ...] = ()

    @property
    def rows(self) -> list[int]:
        return [n for n in range(self.start, self.end) if n not in self.dead and n not in self.gaps]

    @property
    def counts(self) -> Counts:
        return Counts(read=len(self.rows) + len(self.dead), rows=len(self.rows), dead_letters=len(self.dead))

    @property
    def receipt(self) -> RangeReceipt:
        return RangeReceipt(self.topic, self.partition, self.start, self.end, self.counts, len(self.gaps))

    def after(self, before: PartitionProgress) -> PartitionProgress:
        counts, sums = before.counts + self.counts, before.sums + sums_of(np.array(self.rows, np.int64))
        return replace(before, start=self.start, next=self.end, counts=counts, sums=sums)


@dataclass(slots=True)
class SmallLake:
    """`batch` publishes; the rest looks and damages."""

    folder: Path
    spec: TableSpec
    batch_name: str = "batch"
    catalog: CatalogSettings | None = None
    """By default an embedded one in the folder."""

    lake: IcebergLake = field(init=False)
    state: TableState = field(init=False)
    state_before: TableState = field(init=False)
    """Before the last batch."""

    def __post_init__(self) -> None:
        self.restart()
        self.state = TableState(self.spec.pipeline.name, 0, "w", "", ())
        columns = (Column("symbol", Scalar("string")), *metadata_columns(self.spec, None))
        stored = store(self.state)
        self.lake.create(
            self.spec.identifier,
            columns,
            partition_by=self.spec.partition_by,
            sort_by=self.spec.sort_by,
            properties=spec_property(applied_by(self.spec)),
            summary=stored.summary,
            document=stored.document,
        )
        ensure_dead_letters(self.lake, self.spec, standing(self.view, pipeline=self.spec.pipeline))

    @property
    def view(self) -> TableView:
        return self.load(self.spec.identifier)

    @property
    def dead_view(self) -> TableView:
        return self.load(self.spec.dead_letters_identifier)

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(self.spec.identifier)

    def restart(self) -> None:
        """Look at the tables as another process, which remembers nothing of them."""
        self.lake = IcebergLake(self.catalog or CatalogSettings("jdbc", str(self.folder)))

    def load(self, identifier: str) -> TableView:
        view = self.lake.load(identifier)
        assert view is not None
        return view

    def batch(
        self, *reads: Read, damage_state: Callable[[TableState], TableState] = lambda state: state, show: bool = True
    ) -> None:
        """Publish what was read, as `materialize` does; `show=False` dies before the dead letters are revealed."""
        epoch = self.state.epoch + 1
        batch_id = f"{self.batch_name}{epoch}"
        before = self.state_before = self.state
        self.state = damage_state(self._after(reads, epoch, batch_id))
        dead_files = self._files(self.dead_view, [b for read in reads for b in self._dead_batches(read, batch_id)])
        plan = BatchPlan(
            self.spec.identifier, batch_id, 1, before, (), WriterSchemas({}, {}), (), table_uuid=self.view.uuid
        )
        prepare(self.lake, self.spec.dead_letters_identifier, plan=plan, writer="w", files=dead_files)
        self._publish(reads, epoch)
        if show:
            self.reveal()

    def reveal(self, state: TableState | None = None) -> None:
        rows, dead = self.view, self.spec.dead_letters_identifier
        reveal(self.lake, dead, state=state or self.state, rows=rows.identifier, rows_uuid=rows.uuid)

    def make_rows_again(self) -> SmallLake:
        """Drop the table of rows, and make it again; the dead letters stay."""
        self.lake.catalog.drop_table(self.spec.identifier)
        return SmallLake(self.folder, self.spec, batch_name="again")

    def _publish(self, reads: Sequence[Read], epoch: int) -> None:
        view = self.view
        assert view.head is not None
        batches = [batch for read in reads for batch in self._row_batches(read)]
        stored = store(self.state, _receipt(self.spec, self.state, reads))
        self.lake.stage(
            view,
            base=view.head,
            branch=f"stage{epoch}",
            files=self._files(view, batches),
            summary=stored.summary,
            document=stored.document,
        )
        self.lake.publish(self.view, branch=f"stage{epoch}", tag=CHECKPOINT_TAG, drop=[f"stage{epoch}"])

    def _after(self, reads: Sequence[Read], epoch: int, batch_id: str) -> TableState:
        before = {(s.topic, n): p for s in self.state.sources for n, p in s.partitions.items()}
        for read in reads:
            begun = before.get((read.topic, read.partition), PartitionProgress.beginning_at(read.start))
            before[read.topic, read.partition] = read.after(begun)
        sources = tuple(
            SourceProgress(topic, f"id-{topic}", 0, {n: p for (t, n), p in sorted(before.items()) if t == topic})
            for topic in self.spec.topics
        )
        return replace(self.state, epoch=epoch, batch_id=batch_id, sources=sources, complete_through=NOON)

    def _files(self, view: TableView, batches: Sequence[pa.RecordBatch]) -> tuple[WrittenFile, ...]:
        files = DataFileWriter(write_target(view), storage=self.lake.storage, prefix="w", target_bytes=512 << 20)
        for batch in batches:
            files.add(project(batch, files.arrow_schema))
        return files.close()

    def _row_batches(self, read: Read) -> list[pa.RecordBatch]:
        return [rows(self.spec, read.topic, read.partition, read.rows)] if read.rows else []

    def _dead_batches(self, read: Read, batch_id: str) -> list[pa.RecordBatch]:
        if not read.dead:
            return []
        return [dead_letters(read.topic, read.partition, read.dead, batch_id, table_uuid=self.view.uuid)]

    def files(self) -> list[Path]:
        view = self.view
        assert view.head is not None
        return [Path(file.path.removeprefix("file://")) for file in live_files(view, view.head).data]

    def rewrite_in_place(self, change: Callable[[pa.Table], pa.Table], *, path: Path | None = None) -> Path:
        """Put another file where a data file is, with the same columns and field ids."""
        chosen = self.files()[0] if path is None else path
        table = pq.read_table(chosen)
        pq.write_table(change(table).cast(table.schema), chosen, compression="zstd")
        return chosen

    def compact(self, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        """A `replace` snapshot, as maintenance commits it; `change` makes it a disguise."""
        table = self.table
        with table.transaction() as transaction:
            changed = change(table.scan().to_arrow())
            files = _dataframe_to_data_files(table.metadata, changed, table.io)
            with transaction.update_snapshot().overwrite() as replacing:
                for task in table.scan().plan_files():
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)
        self.summarise_otherwise(operation="replace")

    def summarise_otherwise(self, **figures: str) -> None:
        """Write other figures into the head's summary; an underscore in a name becomes a hyphen."""
        head = self.view.head
        metadata = Path(self.table.metadata_location.removeprefix("file://"))
        content = json.loads(metadata.read_text())
        for snapshot in content["snapshots"]:
            if snapshot["snapshot-id"] == head:
                snapshot["summary"] |= {name.replace("_", "-"): value for name, value in figures.items()}
        metadata.write_text(json.dumps(content))
        self.restart()


def rows(spec: TableSpec, topic: str, partition: int, offsets: Sequence[int]) -> pa.RecordBatch:
    count = len(offsets)
    about: Mapping[str, Any] = {
        "topic": [topic] * count,
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(list(offsets), pa.int64()),
        "timestamp": pa.array([NOON + timedelta(hours=n) for n in offsets], pa.timestamp("us", "UTC")),
        "key": [str(n) for n in offsets],
        "schema_id": pa.array([1] * count, pa.int32()),
    }
    kept = {spec.metadata.prefix + name: about[name] for name in spec.metadata.keep}
    return pa.RecordBatch.from_pydict({"symbol": [f"S{n % 7}" for n in offsets], **kept})


def dead_letters(
    topic: str,
    partition: int,
    offsets: Sequence[int],
    batch_id: str,
    *,
    table_uuid: str | None = None,
    generation: int = 0,
) -> pa.RecordBatch:
    count = len(offsets)
    epoch = int(batch_id.lstrip("abcdefghijklmnopqrstuvwxyz") or 0)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "topic": [topic] * count,
            "topic_id": [f"id-{topic}"] * count,
            "generation": pa.array([generation] * count, pa.int32()),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(list(offsets), pa.int64()),
            "timestamp": pa.array([NOON] * count, pa.timestamp("us", "UTC")),
            "key": [str(n).encode() for n in offsets],
            "value": [b"\x00\x00\x00\x00\x07bad" if n % 2 else b"not framed" for n in offsets],
            "headers": pa.array([None] * count, headers),
            "reason": ["bad_utf8" if n % 2 else "not_framed" for n in offsets],
            "detail": ["invalid start byte" if n % 2 else "the first byte is 110" for n in offsets],
            "path": ["order.note" if n % 2 else "" for n in offsets],
            "schema_id": pa.array([7 if n % 2 else None for n in offsets], pa.int32()),
            "batch_id": [batch_id] * count,
            "read_at": pa.array([NOON + timedelta(minutes=epoch)] * count, pa.timestamp("us", "UTC")),
            "table_uuid": pa.array([table_uuid] * count, pa.string()),
            "schema_uuid": pa.nulls(count, pa.string()),
        }
    )


def without(column: str, value: int) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.filter(pa.compute.not_equal(table[column], value))


def altered(column: str, change: Mapping[int, int]) -> Callable[[pa.Table], pa.Table]:
    """Values of a column replaced by others."""

    def apply(table: pa.Table) -> pa.Table:
        values = [change.get(value, value) for value in table[column].to_pylist()]
        index = table.schema.get_field_index(column)
        return table.set_column(index, table.schema.field(index), pa.array(values, table.schema.field(index).type))

    return apply


def _receipt(spec: TableSpec, state: TableState, reads: Sequence[Read] = ()) -> Receipt:
    return Receipt(
        table=spec.identifier,
        epoch=state.epoch,
        batch_id=state.batch_id,
        ranges=tuple(read.receipt for read in reads),
        counts=state.total(),
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=PAYLOAD_BYTES * sum(read.counts.read for read in reads),
        file_bytes=0,
        files=1,
        truncated_nanos=0,
        complete_through=state.complete_through,
        seconds={"ingest": 0.25, "stage": 0.05},
    )
