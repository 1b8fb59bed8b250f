"""Read the dead letters that a request names: first which they are, then their bytes, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.materialize.beginning import Source
from frazil.materialize.dead_letter_marks import Offsets, by_source, marked_through, offsets_of, regions_around
from frazil.materialize.ingest.dead_rows import HEADERS_LEFT_OUT
from frazil.materialize.letter_encryption import decrypted_batch
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.snapshot import TableView
from frazil.model.spec import NamedKey
from frazil.ports import Lake
from frazil.records import BINARY_HEADERS, Headers, Records

LETTERS_AT_ONCE = 200_000
"""The maximum number of dead letters that one snapshot makes rows of."""

LISTED = ("topic", "generation", "partition", "offset", "table_uuid", "replayed_epoch")
READ = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "leader_epoch",
    "key",
    "value",
    "headers",
    "reason",
    "detail",
)

LETTER_LACKS_FIELD = "not_kept"
"""Why a letter stays: an earlier release, or another spec, did not keep a field that the table of rows now has."""


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters of one partition in a snapshot of their table."""

    lake: Lake
    view: TableView
    snapshot_id: int
    rows_uuid: str
    source: Source
    offsets: Offsets
    key: NamedKey | None = None
    """The key of encrypted dead letters, if the spec has policies."""

    def read(self, *, needs: tuple[str, ...]) -> Iterator[tuple[Records, Mapping[int, str]]]:
        """Yield the records in small chunks, each once, and why others cannot be read, by offset.

        `needs` are the columns that a letter must have to become a row.
        """
        region = regions_around({self.source: self.offsets})[0]
        topic, generation, partition = self.source
        equal = {"table_uuid": self.rows_uuid, "topic": topic, "generation": generation, "partition": partition}
        between = ("offset", region.first, region.end)
        left = set(self.offsets.tolist())
        for batch in self.lake.read(
            self.view, columns=READ, equal=equal, between=between, snapshot_id=self.snapshot_id
        ):
            offsets, first = np.unique(offsets_of(batch), return_index=True)
            wanted = np.isin(offsets, list(left))
            if wanted.any():
                left -= set(offsets[wanted].tolist())
                chosen = decrypted_batch(batch.take(pa.array(first[wanted])), self.key)
                lacks = _lacks(chosen, needs)
                named = {int(offset): LETTER_LACKS_FIELD for offset in offsets_of(chosen)[lacks]}
                yield _records(chosen.filter(pa.array(~lacks))), named


def chosen_letters(
    lake: Lake, view: TableView, snapshot_id: int, at: Standing, request: ReplayRequest
) -> dict[Source, Offsets]:
    """Return the letters that a request names and that are not marked, of the topics as they are now, in order."""
    found: dict[Source, list[Offsets]] = {}
    equal = {"table_uuid": at.view.uuid, **request.equal}
    for batch in lake.read(view, columns=LISTED, equal=equal, snapshot_id=snapshot_id):
        unmarked = batch.filter(pc.invert(marked_through(batch, at.state.epoch)))
        for source, part in by_source(unmarked):
            found.setdefault(source, []).append(offsets_of(part))
    known = {
        (source.topic, source.generation, number): (progress.origin, progress.next)
        for source in at.state.sources
        for number, progress in source.partitions.items()
    }
    return {
        source: _within(np.unique(np.concatenate(parts)), *known[source])
        for source, parts in sorted(found.items())
        if source in known
    }


def _within(offsets: Offsets, origin: int, end: int) -> Offsets:
    """The offsets that the table has read: later letters are of batches that were rolled back."""
    return offsets[(offsets >= origin) & (offsets < end)]


def portion(
    chosen: Mapping[Source, Offsets], tried: Mapping[Source, Offsets], most: int = LETTERS_AT_ONCE
) -> dict[Source, Offsets]:
    """Return the first letters, at most so many, that have not been tried."""
    taken: dict[Source, Offsets] = {}
    for source, offsets in sorted(chosen.items()):
        left = np.setdiff1d(offsets, tried.get(source, np.empty(0, np.int64)), assume_unique=True)[:most]
        if len(left):
            taken[source] = left
            most -= len(left)
    return taken


def together(one: Mapping[Source, Offsets], other: Mapping[Source, Offsets]) -> dict[Source, Offsets]:
    empty = np.empty(0, np.int64)
    return {s: np.union1d(one.get(s, empty), other.get(s, empty)) for s in {*one, *other}}


def _lacks(letters: pa.RecordBatch, needs: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which letters lack a field that they must have. A record without a timestamp has no timestamp type."""
    lacks = np.zeros(letters.num_rows, np.bool_)
    for name in needs:
        missing = letters.column(name).is_null()
        if name == "timestamp_type":
            missing = pc.and_(missing, letters.column("timestamp").is_valid())
        lacks |= missing.to_numpy(zero_copy_only=False)
    return lacks


def _records(letters: pa.RecordBatch) -> Records:
    offsets = letters.column("offset").cast(pa.int64())
    return Records(
        offsets=offsets,
        timestamps_ms=pc.divide(letters.column("timestamp").cast(pa.int64()), 1000),
        keys=letters.column("key").cast(pa.large_binary()),
        values=letters.column("value").cast(pa.large_binary()),
        headers=_headers(letters),
        next_offset=int(offsets[-1].as_py()) + 1 if len(offsets) else 0,
        timestamp_types=letters.column("timestamp_type").cast(pa.string()),
        leader_epochs=letters.column("leader_epoch").cast(pa.int32()),
    )


def _headers(letters: pa.RecordBatch) -> Headers:
    """The headers as they were kept; a problem says where they were left out."""
    details = letters.column("detail").cast(pa.string())
    bare = pc.equal(letters.column("reason").cast(pa.string()), Reason.UNREADABLE_HEADERS.value)
    left_out = pc.fill_null(pc.or_(bare, pc.match_substring(details, HEADERS_LEFT_OUT)), False)
    return Headers(
        letters.column("headers").cast(BINARY_HEADERS),
        pc.if_else(left_out, details, pa.scalar(None, pa.string())),
    )
