"""Erase dead letters: those that have the text, and those whose rows are erased, with the marks of replays.

They are counted in the same snapshot, as old dead letters are (`materialize/letter_retention.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.adapters.iceberg.position_deletes import Positions
from frazil.adapters.iceberg.reachable import plain
from frazil.adapters.iceberg.whole_rows import WholeRows
from frazil.forget.matching import IsIn, Places, has_text, positions_where
from frazil.forget.rewriting import Rewritten, affected_by, check_staged, rewrite_without
from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.dead_letter_marks import EPOCH_COLUMN, MARK_READ, LiveReplays, has_marks, marked_offsets
from frazil.materialize.dead_letters import tagged
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.letter_retention import is_counted, last_carrier, publish_alone
from frazil.model.errors import ErasureError
from frazil.model.expired_letters import EXPIRED, Expired, ExpiredLetters, expired_letters
from frazil.model.expired_letters import Source as LetterSource
from frazil.model.ingested import ForgottenFiles
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.traces import Traces
from frazil.ports import Lake
from frazil.proof.tally import offsets_of, sums_of


@dataclass(frozen=True, slots=True)
class LetterErasure:
    """Erases the dead letters of a table.

    `is_in` says whether a payload of a column has the text. `places` are those of rows that are to be erased. `names`
    gives the branch of each attempt. `before` is called with the places of letters before these are erased.
    """

    lake: Lake
    spec: TableSpec
    writer: str
    is_in: IsIn
    places: Places
    names: Iterator[str]
    before: Callable[[Places], None]

    def perform(self, letters: TableView, rows: TableView, traces: Traces) -> int | None:
        """Return how many dead letters were erased; None if another process committed first.

        Raises ErasureError, CatalogError, CommitError and CountMismatchError.
        """
        began = elapsed_seconds()
        found = self._found(letters)
        if not found.offsets and not any(each.kept_by for each in traces.found):
            return 0
        done = self._rewritten(letters, found, {each.address for each in traces.found})
        live = self._live(letters, rows, done)
        figures = self._figures(rows, done, live)
        if not is_counted(self.spec, rows, expired_letters(letters, letters.head, tagged(letters)) + figures):
            raise ErasureError(
                f"{letters.identifier}: there are more dead letters to erase than the state of {rows.identifier}"
                " counts; nothing was erased",
                hint="run `frazil verify` and fix what it finds first",
            )
        if found.offsets:
            self.before(self._without_rows(found, live))
        branch = self._staged(letters, done, figures)
        erased = sum(each.filter(_is_letter(each)).num_rows for each in done.erased)
        return erased if publish_alone(self.lake, letters, branch, began) else None

    def _found(self, letters: TableView) -> Places:
        """Return the places of all dead letters that are to be erased."""
        found, source = Places(), WholeRows.of(write_target(letters), self.lake.storage)
        for file in self.lake.stored_files(letters):
            for batch in source.read_without(file.path, source.deleted_in(file)):
                found.add(batch.filter(self._is_erased(batch, self.places)))
        return found

    def _is_erased(self, letters: pa.RecordBatch, places: Places) -> pa.BooleanArray:
        """Return which letters have the text or are at the places. Those that name no table have no place."""
        return pc.or_(has_text(self.is_in, letters), places.have(letters))

    def _positions_in(self, source: WholeRows, file: StoredFile, found: Places) -> Positions:
        rows = source.read_without(file.path, np.empty(0, np.int64))
        return positions_where(rows, lambda each: self._is_erased(each, found))

    def _rewritten(self, letters: TableView, found: Places, traced: set[str]) -> Rewritten:
        source, files = WholeRows.of(write_target(letters), self.lake.storage), []
        for file in self.lake.stored_files(letters):
            rows = source.read_without(file.path, source.deleted_in(file))
            if plain(file.path) in traced or any(pc.any(self._is_erased(each, found)).as_py() for each in rows):
                files.append(plain(file.path))
        columns = (*MARK_READ, "table_uuid") if has_marks(letters) else (*MARK_READ[:5], "table_uuid")
        return rewrite_without(
            self.lake,
            letters,
            affected_by(self.lake, letters, files),
            lambda file: self._positions_in(source, file, found),
            columns=columns,
            prefix=f"{self.writer}-forget",
            target_bytes=self.spec.maintain.target_file_bytes,
        )

    def _live(self, letters: TableView, rows: TableView, done: Rewritten) -> Mapping[LetterSource, BitMap64]:
        """Return the places of the erased letters that a replay made rows of: the state counts these as rows."""
        own = [each.filter(pc.equal(each.column("table_uuid"), rows.uuid)) for each in done.erased]
        live = marked_offsets(own, LiveReplays.of(rows)) if has_marks(letters) else {}
        return {(rows.uuid, *place): offsets for place, offsets in live.items()}

    def _without_rows(self, found: Places, live: Mapping[LetterSource, BitMap64]) -> Places:
        """Return the places whose records are to make no row any more: the rows of the others stay."""
        erased = self.places.offsets
        stay = {source: offsets - erased.get(source, BitMap64()) for source, offsets in live.items()}
        return Places({source: some - stay.get(source, BitMap64()) for source, some in found.offsets.items()})

    def _figures(self, rows: TableView, done: Rewritten, live: Mapping[LetterSource, BitMap64]) -> ExpiredLetters:
        """Return the figures of the erased letters that the state counts: those of replays that became rows are not."""
        gone = Places()
        for each in done.erased:
            gone.add(each.filter(pc.and_(pc.equal(each.column("table_uuid"), rows.uuid), _is_letter(each))))
        left = {source: offsets - live.get(source, BitMap64()) for source, offsets in gone.offsets.items()}
        return ExpiredLetters({s: Expired(len(each), sums_of(offsets_of(each))) for s, each in left.items() if each})

    def _staged(self, letters: TableView, done: Rewritten, figures: ExpiredLetters) -> str:
        carrier = last_carrier(letters)
        assert letters.head is not None and carrier is not None  # noqa: S101 - it is settled
        repeated = {n: text for n, text in carrier.summary.items() if n.startswith("frazil.") and n != EXPIRED}
        counted = expired_letters(letters, letters.head, tagged(letters)) + figures
        expired, document = counted.stored()
        branch = next(self.names)
        staged = self.lake.stage(
            letters,
            base=letters.head,
            branch=branch,
            files=done.files,
            summary={**repeated, **expired},
            document=document,
            deletes=(ForgottenFiles(done.dropped),),
        )
        check_staged(self.lake, letters.identifier, staged, done.figures)
        return branch


def _is_letter(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return which rows of a dead-letter table are dead letters, and no marks."""
    if EPOCH_COLUMN not in rows.schema.names:
        return pa.array([True] * rows.num_rows, pa.bool_())
    return rows.column(EPOCH_COLUMN).is_null()
