"""Read the dead letters that a request names: first which they are, then their bytes, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.materialize.dead_letter_checks import counted_letters
from frazil.materialize.dead_letter_marks import (
    EPOCH_COLUMN,
    MARK_READ,
    LiveReplays,
    Offsets,
    Source,
    by_source,
    has_marks,
    is_unmarked,
    marked_offsets,
    offsets_of,
)
from frazil.materialize.ingest.dead_rows import HEADERS_LEFT_OUT
from frazil.materialize.letter_encryption import decrypted_batch
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import CountMismatchError
from frazil.model.progress import BatchRef, PartitionProgress
from frazil.model.secret import NamedKey
from frazil.model.snapshot import TableView
from frazil.model.spelling import plural
from frazil.ports import Lake
from frazil.records import BINARY_HEADERS, Headers, Records

LETTERS_AT_ONCE = 200_000
"""The maximum number of dead letters that one snapshot makes rows of."""

LISTED = ("topic", "generation", "partition", "offset", EPOCH_COLUMN)
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
    EPOCH_COLUMN,
)

LETTER_LACKS_FIELD = "not_kept"
"""Why a letter stays: an earlier release, or another spec, did not keep a field that the table of rows now has."""


NOT_DECRYPTED = "not_decrypted"
"""Why a letter stays: it cannot be decrypted with the configured key."""

Stays = Mapping[int, tuple[str, str]]
"""Why letters cannot be read, by offset: a reason, and what was wrong."""


@dataclass(frozen=True, slots=True)
class Letters:
    """The chosen dead letters of one partition."""

    lake: Lake
    view: TableView
    rows_uuid: str
    source: Source
    offsets: Offsets
    key: NamedKey | None = None
    """The key of encrypted dead letters, if the spec has policies."""

    def read(self, *, needs: tuple[str, ...]) -> Iterator[tuple[Records, Stays]]:
        """Yield the records in small chunks, each once, and why others cannot be read.

        `needs` are the columns that a letter must have to become a row.
        """
        topic, generation, partition = self.source
        equal = {"table_uuid": self.rows_uuid, "topic": topic, "generation": generation, "partition": partition}
        between = ("offset", int(self.offsets.min()), int(self.offsets.max()) + 1)
        left = set(self.offsets.tolist())
        for batch in self.lake.read(self.view, columns=READ, equal=equal, between=between):
            letters = batch.filter(batch.column(EPOCH_COLUMN).is_null())
            offsets, first = np.unique(offsets_of(letters), return_index=True)
            wanted = np.isin(offsets, list(left))
            if wanted.any():
                left -= set(offsets[wanted].tolist())
                yield self._readable(letters.take(pa.array(first[wanted])), needs)

    def _readable(self, letters: pa.RecordBatch, needs: tuple[str, ...]) -> tuple[Records, Stays]:
        readable, stays = _decrypted(letters, self.key)
        lacks = _lacks(readable, needs)
        for offset in offsets_of(readable)[lacks].tolist():
            stays[offset] = LETTER_LACKS_FIELD, f"the dead letter lacks {' or '.join(needs)}, which the table keeps"
        return _records(readable.filter(pa.array(~lacks))), stays


def _decrypted(letters: pa.RecordBatch, key: NamedKey | None) -> tuple[pa.RecordBatch, dict[int, tuple[str, str]]]:
    """Return the letters as they were, and why others cannot be decrypted."""
    decrypted, unread = decrypted_batch(letters, key)
    if not unread:
        return decrypted, {}
    offsets = offsets_of(letters)
    readable = np.setdiff1d(np.arange(letters.num_rows), np.fromiter(unread, np.int64))
    stays = {int(offsets[index]): (NOT_DECRYPTED, problem.what) for index, problem in unread.items()}
    return decrypted.take(pa.array(readable)), stays


def chosen_letters(lake: Lake, view: TableView, at: Standing, request: ReplayRequest) -> dict[Source, Offsets]:
    """Return the letters that a request names and that have no mark, of the topics as they are now, in order.

    Raises CountMismatchError if more letters have no mark than the state counts: some of them are rows.
    """
    if not {*request.equal, *MARK_READ} <= {column.name for column in view.columns}:
        return {}
    marked = marks_in(lake, view, at)
    every = _unmarked(lake, view, at, marked, {})
    _check_counts(at, every)
    return _unmarked(lake, view, at, marked, request.equal) if request.equal else every


def _unmarked(
    lake: Lake, view: TableView, at: Standing, marked: Mapping[Source, BitMap64], equal: Mapping[str, object]
) -> dict[Source, Offsets]:
    found: dict[Source, list[Offsets]] = {}
    for batch in lake.read(view, columns=LISTED, equal={"table_uuid": at.view.uuid, **equal}):
        unmarked = batch.filter(pa.array(is_unmarked(batch, marked)))
        for source, part in by_source(unmarked):
            found.setdefault(source, []).append(offsets_of(part))
    known = _progress(at)
    return {
        source: _within(np.unique(np.concatenate(parts)), known[source].origin, known[source].next)
        for source, parts in sorted(found.items())
        if source in known
    }


def _progress(at: Standing) -> dict[Source, PartitionProgress]:
    return {(s.topic, s.generation, number): p for s in at.state.sources for number, p in s.partitions.items()}


def _check_counts(at: Standing, unmarked: Mapping[Source, Offsets]) -> None:
    for source, counted in counted_letters(at.state).items():
        found = len(unmarked.get(source, ()))
        if found > counted:
            raise CountMismatchError(
                f"{at.view.identifier}: {source[0]}-{source[2]} has {plural(found, 'dead letter')} without the mark of"
                f" a replay, counted: {counted:,}; nothing was published",
                hint="others changed the table of dead letters, perhaps its marks: run `frazil verify`, and restore it",
            )


def marks_in(lake: Lake, view: TableView, at: Standing) -> dict[Source, BitMap64]:
    """Return the letters that replays of the table of rows have marked."""
    if not has_marks(view):
        return {}
    marks = lake.read(view, columns=MARK_READ, equal={"table_uuid": at.view.uuid}, present=(EPOCH_COLUMN,))
    return marked_offsets(marks, LiveReplays.of(at.view))


def _within(offsets: Offsets, origin: int, end: int) -> Offsets:
    """The offsets that the table has read: later letters are of batches that were rolled back."""
    return offsets[(offsets >= origin) & (offsets < end)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The chosen letters that have not been tried, and the tables that they were chosen in.

    They stay chosen while the table of rows ends with the batch `after`, and the dead letters with the snapshot `head`.
    """

    after: BatchRef
    head: int | None
    letters: Mapping[Source, Offsets]

    def first(self, most: int) -> tuple[dict[Source, Offsets], dict[Source, Offsets]]:
        """Return the first letters, at most so many, and the others."""
        taken: dict[Source, Offsets] = {}
        others: dict[Source, Offsets] = {}
        for source, offsets in self.letters.items():
            if most and len(offsets):
                taken[source] = offsets[:most]
            if len(offsets) > most:
                others[source] = offsets[most:]
            most -= len(taken.get(source, ()))
        return taken, others


def without(chosen: Mapping[Source, Offsets], tried: Mapping[Source, Sequence[Offsets]]) -> dict[Source, Offsets]:
    """Return the chosen letters, by source and in order, that have not been tried."""
    left = {source: [offsets, *tried.get(source, ())] for source, offsets in sorted(chosen.items())}
    return {
        s: np.setdiff1d(parts[0], np.concatenate(parts[1:])) if parts[1:] else parts[0] for s, parts in left.items()
    }


def _lacks(letters: pa.RecordBatch, needs: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which letters lack a field that they must have.

    Letters of earlier releases lack all of them. So does the timestamp type of a record without a timestamp.
    """
    lacks = np.zeros(letters.num_rows, np.bool_)
    for name in needs:
        lacks |= letters.column(name).is_null().to_numpy(zero_copy_only=False)
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
