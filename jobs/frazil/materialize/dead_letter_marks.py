"""Marks of dead letters that became rows.

A mark is a row of the dead-letter table beside the letter's own, with the same topic, generation, partition and offset,
the reason `replayed`, and the replay's batch, epoch and snapshot. Marks are added as the dead letters of any batch are:
prepared on a branch, then revealed. No dead letter is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.materialize.layout import MARK_COLUMNS
from frazil.model.snapshot import TableView
from frazil.model.summary import BATCH_ID, EPOCH, carries_state
from frazil.proof.tally import bitmap_of

Offsets = npt.NDArray[np.int64]
Source = tuple[str, int, int]
"""A topic, its generation and a partition."""

REPLAYED_REASON = "replayed"
"""The `reason` of a mark."""

EPOCH_COLUMN = "replayed_epoch"
"""The column that is null in dead letters, and not in marks."""

MARK_READ = ("topic", "generation", "partition", "offset", "batch_id", EPOCH_COLUMN)
"""The columns that `marked_offsets` needs."""

_MARKS = frozenset(column.name for column in MARK_COLUMNS)


@dataclass(frozen=True, slots=True)
class LiveReplays:
    """The batches that the table of rows has: a mark of another one was taken back by a rollback.

    Batches before `oldest`, an epoch, have expired. Marks from before it are of batches that the table has: those of a
    rolled back batch are removed with the next batch of the same epoch.
    """

    oldest: int
    batch_ids: frozenset[str]

    @staticmethod
    def of(rows: TableView | None) -> LiveReplays:
        """Return the batches in the ancestry of the table's head; none if there is no table."""
        ancestry = () if rows is None else rows.ancestry(rows.head)
        carriers = [snapshot.summary for snapshot in ancestry if carries_state(snapshot)]
        oldest = min((int(summary[EPOCH]) for summary in carriers), default=0)
        return LiveReplays(oldest, frozenset(summary[BATCH_ID] for summary in carriers))

    def have(self, marks: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a dead-letter table are marks of these replays."""
        epochs, ids = marks.column(EPOCH_COLUMN), marks.column("batch_id").cast(pa.string())
        known = pc.is_in(ids, value_set=pa.array(sorted(self.batch_ids), pa.string()))
        return pc.fill_null(pc.and_(pc.is_valid(epochs), pc.or_(pc.less(epochs, self.oldest), known)), False)


@dataclass(frozen=True, slots=True)
class NewMarks:
    """The marks of a replay: when, its epoch, its batch, the snapshot of the table of rows, and the letters."""

    at: datetime
    epoch: int
    batch_id: str
    snapshot_id: int
    rows_uuid: str
    offsets: Mapping[Source, Offsets]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the marks in the schema of the dead-letter table, one batch for each partition."""
        for (topic, generation, partition), offsets in sorted(self.offsets.items()):
            values: dict[str, object] = {
                "topic": topic,
                "generation": generation,
                "partition": partition,
                "reason": REPLAYED_REASON,
                "batch_id": self.batch_id,
                "read_at": self.at,
                "table_uuid": self.rows_uuid,
                "replayed_at": self.at,
                EPOCH_COLUMN: self.epoch,
                "replayed_snapshot_id": self.snapshot_id,
            }
            columns = [
                pa.array(offsets).cast(field.type)
                if field.name == "offset"
                else pa.repeat(pa.scalar(values.get(field.name), field.type), len(offsets))
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def has_marks(view: TableView) -> bool:
    """Return whether the dead-letter table has the columns of a mark; a run adds them to older tables."""
    return {column.name for column in view.columns} >= _MARKS


def marked_offsets(marks: Iterable[pa.RecordBatch], replays: LiveReplays) -> dict[Source, BitMap64]:
    """Return the letters that the marks of these replays are about."""
    found: dict[Source, BitMap64] = {}
    for batch in marks:
        for source, part in by_source(batch.filter(replays.have(batch))):
            found.setdefault(source, BitMap64()).update(bitmap_of(offsets_of(part)))
    return found


def is_unmarked(letters: pa.RecordBatch, marked: Mapping[Source, BitMap64]) -> npt.NDArray[np.bool_]:
    """Return which rows are dead letters without a mark, and no marks themselves."""
    place = pa.array(np.arange(letters.num_rows))
    unmarked = np.ones(letters.num_rows, np.bool_)
    if EPOCH_COLUMN in letters.schema.names:
        unmarked = letters.column(EPOCH_COLUMN).is_null().to_numpy(zero_copy_only=False).copy()
    if not marked:
        return unmarked
    for source, part in by_source(letters.append_column("_place", place)):
        if source in marked:
            hit = np.fromiter((offset in marked[source] for offset in offsets_of(part).tolist()), np.bool_)
            unmarked[part.column("_place").to_numpy()[hit]] = False
    return unmarked


def by_source(letters: pa.RecordBatch) -> Iterator[tuple[Source, pa.RecordBatch]]:
    """Yield the letters of each partition of each topic."""
    if not letters.num_rows:
        return
    names = ("topic", "generation", "partition")
    keys = pa.table([letters.column(name) for name in names], names=list(names))
    for key in keys.group_by(list(names), use_threads=False).aggregate([]).to_pylist():
        masks = [pc.fill_null(pc.equal(letters.column(name), key[name]), False) for name in names]
        mask = pc.and_(pc.and_(masks[0], masks[1]), masks[2])
        yield (key["topic"], key["generation"], key["partition"]), letters.filter(mask)


def offsets_of(letters: pa.RecordBatch) -> Offsets:
    return np.asarray(letters.column("offset").to_numpy(zero_copy_only=False), np.int64)
