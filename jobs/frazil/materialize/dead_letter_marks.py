"""Marks of dead letters that became rows: letters are rewritten with their mark, or without one that was taken back.

The letters of a region (a range of offsets of one partition) are written to new files as they are to be, and those that
the table has of the region are taken out. So the condition for what is taken out stays short, however many letters are
marked, and any process can put the same files onto another head of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.materialize.beginning import Beginning, Source
from frazil.materialize.layout import MARK_COLUMNS
from frazil.model.ingested import WrittenFile
from frazil.model.snapshot import TableView
from frazil.ports import Lake

Offsets = npt.NDArray[np.int64]

MARKS = tuple(column.name for column in MARK_COLUMNS)


@dataclass(frozen=True, slots=True)
class Region:
    """The offsets `[first, end)` of one partition."""

    topic: str
    generation: int
    partition: int
    first: int
    end: int

    @property
    def source(self) -> Source:
        return self.topic, self.generation, self.partition

    @property
    def condition(self) -> str:
        """Return a filter in Iceberg's language."""
        source = f"topic = '{self.topic}' AND generation = {self.generation} AND partition = {self.partition}"
        return f"({source} AND offset >= {self.first} AND offset < {self.end})"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The dead letters that a replay makes rows of, and its mark: when, the epoch, the batch and the rows' snapshot."""

    at: datetime
    epoch: int
    batch_id: str
    snapshot_id: int
    offsets: Mapping[Source, Offsets]

    @property
    def regions(self) -> tuple[Region, ...]:
        return regions_around(self.offsets)


def regions_around(offsets: Mapping[Source, Offsets]) -> tuple[Region, ...]:
    """Return one region for each partition: from its first offset to its last."""
    found = ((source, each) for source, each in sorted(offsets.items()) if len(each))
    return tuple(Region(*source, int(each.min()), int(each.max()) + 1) for source, each in found)


def condition_of(regions: Sequence[Region], rows_uuid: str) -> str:
    """Return a filter for the dead letters of a table of rows in any of the regions."""
    return f"table_uuid = '{rows_uuid}' AND ({' OR '.join(region.condition for region in regions)})"


def regions_text(regions: Sequence[Region]) -> str:
    return json.dumps([astuple(region) for region in regions], separators=(",", ":"))


def regions_in(text: str) -> tuple[Region, ...]:
    return tuple(Region(*each) for each in json.loads(text))


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent snapshot of new dead letters. If it is not `whole`, some of its dead letters must be removed first."""

    base: int
    whole: bool


def has_marks(view: TableView) -> bool:
    """Return whether the table has the columns of a mark; older ones get them from a run of this release."""
    names = {column.name for column in view.columns}
    return names.issuperset(MARKS)


def marked_through(batch: pa.RecordBatch, epoch: int) -> pa.BooleanArray:
    """Return which letters a replay made rows of, up to this epoch: later ones were taken back by a rollback."""
    return pc.fill_null(pc.less_equal(batch.column("replayed_epoch"), epoch), False)


def stale_marks(
    lake: Lake, view: TableView, snapshot_id: int, *, epoch: int, rows_uuid: str, outside: Sequence[Region] = ()
) -> dict[Source, Offsets]:
    """Return the letters with a mark of this epoch or a later one, whose rows were taken back by a rollback."""
    if not has_marks(view):
        return {}
    columns = ("topic", "generation", "partition", "offset", "replayed_epoch", "table_uuid")
    found: dict[Source, list[Offsets]] = {}
    for batch in lake.read(view, columns=columns, equal={"table_uuid": rows_uuid}, snapshot_id=snapshot_id):
        stale = batch.filter(pc.fill_null(pc.greater_equal(batch.column("replayed_epoch"), epoch), False))
        for source, part in by_source(stale):
            found.setdefault(source, []).append(offsets_of(part))
    together = {source: np.concatenate(parts) for source, parts in found.items()}
    return {source: offsets[~_in_any(source, offsets, outside)] for source, offsets in together.items()}


def _in_any(source: Source, offsets: Offsets, regions: Iterable[Region]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(len(offsets), np.bool_)
    for region in regions:
        if region.source == source:
            inside |= (offsets >= region.first) & (offsets < region.end)
    return inside


def _without_stale(batch: pa.RecordBatch, valid_before: int) -> pa.RecordBatch:
    valid = pc.less(batch.column("replayed_epoch"), valid_before)
    return _with_marks(batch, {name: pc.if_else(valid, batch.column(name), None) for name in MARKS})


def _marked(batch: pa.RecordBatch, source: Source, replayed: Replayed | None) -> pa.RecordBatch:
    if replayed is None or source not in replayed.offsets:
        return batch
    mark = (replayed.at, replayed.epoch, replayed.batch_id, replayed.snapshot_id)
    unmarked = batch.column("replayed_epoch").is_null().to_numpy(zero_copy_only=False)
    now = pa.array(np.isin(offsets_of(batch), replayed.offsets[source]) & unmarked)
    marks = zip(MARKS, mark, strict=True)
    return _with_marks(
        batch,
        {n: pc.if_else(now, pa.scalar(value, batch.schema.field(n).type), batch.column(n)) for n, value in marks},
    )


def _with_marks(batch: pa.RecordBatch, marks: Mapping[str, pa.Array]) -> pa.RecordBatch:
    columns = [marks.get(field.name, batch.column(field.name)) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def by_source(letters: pa.RecordBatch) -> Iterator[tuple[Source, pa.RecordBatch]]:
    """Yield the letters of each partition of each topic."""
    if not letters.num_rows:
        return
    names = ("topic", "generation", "partition")
    keys = pa.table([letters.column(name) for name in names], names=list(names))
    for key in keys.group_by(list(names), use_threads=False).aggregate([]).to_pylist():
        masks = [pc.equal(letters.column(name), key[name]) for name in names]
        mask = pc.and_(pc.and_(masks[0], masks[1]), masks[2])
        yield (key["topic"], key["generation"], key["partition"]), letters.filter(mask)


def offsets_of(letters: pa.RecordBatch) -> Offsets:
    return np.asarray(letters.column("offset").to_numpy(zero_copy_only=False), np.int64)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is taken out of the table and written anew, apart from the dead letters that are added.

    The files of a batch that is staged again have the regions `already`.
    """

    lake: Lake
    beginning: Beginning
    epoch: int
    replayed: Replayed | None = None
    already: tuple[Region, ...] = ()

    def regions(self, view: TableView, place: Parent) -> tuple[Region, ...]:
        """Return the regions that are to be written: with letters to mark, or with marks that were rolled back."""
        marking = {} if self.replayed is None else dict(self.replayed.offsets)
        uuid = self.beginning.rows_uuid
        stale = (
            {}
            if place.whole
            else stale_marks(self.lake, view, place.base, epoch=self.epoch, rows_uuid=uuid, outside=self.already)
        )
        both = {source: [each[source] for each in (marking, stale) if source in each] for source in (*marking, *stale)}
        return regions_around({source: np.concatenate(parts) for source, parts in both.items()})

    def files(self, view: TableView, place: Parent, regions: Sequence[Region], prefix: str) -> Sequence[WrittenFile]:
        """Write the letters of the regions as they are to be."""
        if not regions:
            return ()
        letters = self._letters(view, place, regions)
        return self.lake.write(view, letters, prefix=prefix)

    def _letters(self, view: TableView, place: Parent, regions: Sequence[Region]) -> Iterator[pa.RecordBatch]:
        """Yield the letters of the regions, without those of batches that were rolled back, and without their marks."""
        for region in regions:
            source = region.source
            taken_back = None if place.whole else self.beginning.of(source)
            end = region.end if taken_back is None else min(region.end, taken_back)
            if end <= region.first:
                continue
            equal = dict(zip(("topic", "generation", "partition"), source, strict=True))
            for batch in self.lake.read(
                view,
                columns=("*",),
                equal={"table_uuid": self.beginning.rows_uuid, **equal},
                between=("offset", region.first, end),
                snapshot_id=place.base,
            ):
                written = _in_any(source, offsets_of(batch), self.already)
                left = batch.filter(pa.array(~written)) if written.any() else batch
                yield _marked(_without_stale(left, self.epoch), source, self.replayed)

    def without(self, place: Parent, regions: Sequence[Region]) -> str | None:
        """Return the condition for the letters that are taken out."""
        taken = [] if place.whole else [f"({self.beginning.condition})"]
        if regions:
            taken.append(f"({condition_of(regions, self.beginning.rows_uuid)})")
        return " OR ".join(taken) or None
