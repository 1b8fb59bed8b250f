"""Erase a value from a table, in steps that a process which dies leaves whole, and that the next run continues.

The table is paused meanwhile, so that no batch comes in between. Dead letters go before the rows: those that became
rows are known by these rows only. The proof at the end is a search through everything that the table stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from frazil.adapters.iceberg.earlier_versions import EarlierVersion, EarlierVersions
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.forget.delta_log import erase_from_log
from frazil.forget.hashes import HashKeeping
from frazil.forget.letters import LetterErasure
from frazil.forget.matching import Places
from frazil.forget.refusals import check_can_erase, check_column, check_pins
from frazil.forget.rows import ErasedRows, RowErasure, places_of
from frazil.forget.snapshots import Holders, delete_expired_files, expire
from frazil.maintain.expire import DAILY_PREFIX
from frazil.materialize.branches import ATTEMPTS, STAGE_PREFIX, branch_names, given_up
from frazil.materialize.dead_letters import reveal
from frazil.materialize.letter_retention import RETENTION_PREFIX, is_settled, last_carrier
from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows
from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.history import note, operation
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.erasures import with_letters
from frazil.model.errors import CatalogError, CommitError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.traces import SoughtValue, Traces
from frazil.ports import Lake

WHY_PAUSED = "`frazil forget` erases rows; if it died, run it again"
Step = Callable[[str], None]
"""Called before each step, with its name."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, and what the search found afterwards. `pins` were dropped; `problems` kept files.

    `elsewhere` are files with erased rows outside the table's folders, which are no files of the table any more.
    `no_hash` says why the table keeps no hash of the value; empty if it keeps one.
    """

    rows: int = 0
    dead_letters: int = 0
    snapshots: int = 0
    files: int = 0
    versions: int = 0
    pins: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    no_hash: str = ""
    left: tuple[Traces, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.elsewhere and not any(each.found for each in self.left)


@dataclass(slots=True)
class Erasure:
    """Erases one value from a table and its dead letters. `new_id` gives the id of each batch that is published.

    `parts_of_words`: dead letters are erased also if the text is in a longer word, which may be part of other values.
    """

    lake: Lake
    spec: TableSpec
    sought: SoughtValue
    by: str
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    drop_pins: bool = False
    parts_of_words: bool = False
    step: Step = lambda name: None
    writer: str = field(init=False)
    row_branches: Iterator[str] = field(init=False)
    letter_branches: Iterator[str] = field(init=False)
    hashes: HashKeeping = field(init=False)
    done: Erased = field(init=False, default_factory=Erased)

    def __post_init__(self) -> None:
        self.writer = self.new_id()
        self.row_branches = branch_names(STAGE_PREFIX, self.writer)
        self.letter_branches = branch_names(RETENTION_PREFIX, self.writer)

    def perform(self) -> Erased:
        """Erase the value, and search for it again.

        Raises ErasureError if the table is one that this release does not erase from, or if pins keep traces: nothing
        was changed then. Raises ContendedError if others keep committing, CatalogError and CountMismatchError, and
        SettingError or ServiceError if the key of the hashes cannot be read.
        """
        tables = self._tables()
        here = self._standing(tables[0])
        check_can_erase(self.lake, self.spec, here, self.sought)
        check_column(self.spec, self.sought)
        self.hashes = HashKeeping.of(self.spec, here, self.sought)
        self._check_pins(tables)
        with self._paused():
            self._take_out()
            self._keep_hash()
            if "delta" in self.spec.formats:
                self.step("delta")
                erase_from_log(self.lake, own_rows(self.lake, self.spec))
            self._let_go()
            self._note()
            self.step("versions")
            earlier = EarlierVersions(self.lake.storage)
            left = tuple(self._without_earlier(view, earlier) for view in self._tables())
            self.done = replace(self.done, left=left, no_hash=self.hashes.why_not)
        return self.done

    def _take_out(self) -> None:
        """Make both tables visible without the value. Looked for again if another process commits first."""
        failure: Exception = OvertakenError("not tried")
        for _ in range(ATTEMPTS):
            try:
                if self._took_out():
                    return
                failure = OvertakenError("other batches came first")
            except (OvertakenError, CommitError) as overtaken:
                failure = overtaken
            except CatalogError as unreadable:
                if not isinstance(unreadable.__cause__, FileNotFoundError):
                    raise
                failure = unreadable  # another erasure has deleted files that this one was reading
        raise given_up(self.spec.identifier, "erase rows", failure)

    def _took_out(self) -> bool:
        """Return whether all is taken out; otherwise another process committed first."""
        here = self._settled()
        if pause_of(here.view.properties) is None:
            self._pause()  # a later erasure has ended before this one
        check_can_erase(self.lake, self.spec, here, self.sought)  # again, now that no batch comes in between
        rows, letters = here.view, own_dead_letters(self.lake, self.spec)
        in_rows = self._searched(rows)
        erasure = self._of_rows()
        self.step("rewrite")
        erased = erasure.rewrite(here, in_rows)
        if letters is not None:
            self.step("letters")
            places = places_of(here, erased)
            names, before = self.letter_branches, self._before_letters
            of_letters = LetterErasure(self.lake, self.spec, self.writer, self._is_in, places, names, before)
            count = of_letters.perform(letters, rows, self._searched(letters))
            if count is None:
                return False
            self.done = replace(self.done, dead_letters=self.done.dead_letters + count)
        if any(each.kept_by for each in in_rows.found):
            self._publish(erasure, here, erased)
        return True

    def _is_in(self, column: str, payload: object) -> bool:
        """Return whether a payload of a dead letter, in this column, has the text. Headers have no format."""
        if self.parts_of_words:
            return self.sought.is_in_payload(payload)
        formats = {"key": self.spec.key, "value": self.spec.value}
        return self.sought.is_word_in_payload(payload, formats.get(column))

    def _keep_hash(self) -> None:
        """Let the table know the value before its rows go: a rebuild that begins beside this does not bring it back."""
        self.step("hash")
        self.hashes.keep(self.lake, self.spec, self._standing(own_rows(self.lake, self.spec)), self.sought)

    def _before_letters(self, found: Places) -> None:
        self._keep_hash()
        rows = own_rows(self.lake, self.spec)
        offsets = {(t, g, n): some for (uuid, t, g, n), some in found.offsets.items() if uuid == rows.uuid}
        kept = with_letters(rows.properties, self.writer, offsets)
        if kept:
            self.lake.set_properties(self.spec.identifier, put=kept)
        self._expire_earlier_states()

    def _expire_earlier_states(self) -> None:
        """Leave no state to roll back to: its batches would count erased dead letters again, or as rows no longer."""
        rows = own_rows(self.lake, self.spec)
        expiry = Holders.of_earlier_states(rows).expiry(dropped=(DAILY_PREFIX,))
        expire(self.lake, rows, expiry)
        self.done = replace(self.done, snapshots=self.done.snapshots + len(expiry.snapshots))

    def _of_rows(self) -> RowErasure:
        return RowErasure(self.lake, self.spec, self.writer, self.sought.without_renamed, self.row_branches)

    def _publish(self, erasure: RowErasure, here: Standing, erased: ErasedRows) -> None:
        self._keep_hash()
        self.step("rows")
        erasure.publish(here, erased, batch_id=self.new_id())
        self.done = replace(self.done, rows=self.done.rows + erased.rows)

    def _settled(self) -> Standing:
        """Return the table with the whole last batch visible, and with none under way that has dead letters.

        One that is, or whose process died, is overtaken by a batch that changes nothing.
        """
        here = self._standing(own_rows(self.lake, self.spec))
        letters = own_dead_letters(self.lake, self.spec)
        if letters is None:
            return here
        if here.state.batch_id:
            name, uuid = self.spec.identifier, here.view.uuid
            letters = reveal(self.lake, letters.identifier, state=here.state, rows=name, rows_uuid=uuid)
        carrier = last_carrier(letters)
        if carrier is not None and is_settled(self.spec, letters, carrier, here.view):
            return here
        self.step("settle")
        erasure = self._of_rows()
        nothing = Traces(here.view.identifier, (), {})
        erasure.publish(here, erasure.rewrite(here, nothing), batch_id=self.new_id())
        return self._standing(own_rows(self.lake, self.spec))

    def _let_go(self) -> None:
        """Expire what keeps traces, and delete the files that nothing has then, also those that a run has left."""
        for view in self._tables():
            held = self._holders(view, self._searched(view))
            pins = held.pins if self.drop_pins else []
            expiry = held.expiry(pins)
            self.step("expire")
            now = expire(self.lake, view, expiry)
            self.step("delete")
            deleted = delete_expired_files(now)
            elsewhere = tuple(each for each in deleted.elsewhere if self._search_in(view, self.sought).is_in(now, each))
            self.done = replace(
                self.done,
                snapshots=self.done.snapshots + len(expiry.snapshots),
                files=self.done.files + deleted.files,
                pins=(*self.done.pins, *pins),
                problems=(*self.done.problems, *deleted.problems),
                elsewhere=(*self.done.elsewhere, *elsewhere),
            )

    def _without_earlier(self, view: TableView, earlier: EarlierVersions) -> Traces:
        """Delete earlier versions of files with the value; return the traces that are left."""
        found = self._search_in(view, self.sought).find_everywhere(view, earlier)
        gone = [each for each in found.found if each.is_earlier]
        earlier.delete([EarlierVersion.of(each.address) for each in gone])
        self.done = replace(self.done, versions=self.done.versions + len(gone))
        return replace(found, found=tuple(each for each in found.found if not each.is_earlier))

    def _check_pins(self, tables: Sequence[TableView]) -> None:
        pins = {view.identifier: self._holders(view, self._searched(view)).pins for view in tables}
        check_pins(pins, drop=self.drop_pins)

    def _holders(self, view: TableView, traces: Traces) -> Holders:
        return Holders.of_letters(view) if self._has_letters(view) else Holders.of(view, traces)

    def _tables(self) -> list[TableView]:
        """Return the table of rows, and that of dead letters if there is one."""
        letters = own_dead_letters(self.lake, self.spec)
        return [own_rows(self.lake, self.spec), *([] if letters is None else [letters])]

    def _has_letters(self, view: TableView) -> bool:
        return view.identifier != self.spec.identifier

    def _search_in(self, view: TableView, sought: SoughtValue) -> TraceSearch:
        return TraceSearch(sought, letters=self._has_letters(view))

    def _searched(self, view: TableView) -> Traces:
        """Return the traces to erase: those in columns that are called otherwise now stay."""
        return self._search_in(view, self.sought.without_renamed).find(view)

    def _standing(self, rows: TableView) -> Standing:
        return standing(rows, pipeline=self.spec.pipeline)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Pause the table meanwhile. A pause of an operator or of a later erasure stays; one of an earlier does not."""
        self.step("pause")
        self._pause()
        try:
            yield
        finally:
            now = pause_of(own_rows(self.lake, self.spec).properties)
            if now is not None and now.erasure == self.writer:
                resume(self.lake, self.spec)

    def _pause(self) -> None:
        pause(self.lake, self.spec, by=self.by, why=WHY_PAUSED, at=self.now(), erasure=self.writer)

    def _note(self) -> None:
        """Keep in the table who erased how much, and from which column; never which value."""
        rows, letters = plural(self.done.rows, "row"), plural(self.done.dead_letters, "dead letter")
        why = f"{rows} and {letters} by a value of {self.sought.column}"
        note(self.lake, self.spec, operation("forget", by=self.by, at=self.now(), why=why))
